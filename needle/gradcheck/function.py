"""What is checked: a function of tensors, its values as one vector, and its graph with random cotangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import backend
from ..autograd import Tensor, TensorTuple, Value, enable_grad, find_topo_sort, grad, no_grad

Arrays = list[np.ndarray]


class GradientError(AssertionError):
    """A gradient disagrees with finite differences.

    It is an AssertionError, since what failed is a statement about the checked code, and test runners show it as a
    failed test. Arguments that cannot be checked are a ValueError or a TypeError.

    Attributes
    ----------
    op : str
        The op whose rule is wrong, or the function if no single op is.
    hint : str
        The likeliest mistake.
    input : int or None
        The position of the input whose gradient is wrong.
    index : tuple of int or None
        Where it is off most.
    """

    __module__ = "needle.gradcheck"

    def __init__(self, text: str, op: str, hint: str, input: int | None = None, index: tuple | None = None):
        super().__init__(text)
        self.op = op
        self.hint = hint
        self.input = input
        self.index = index


class Function:
    """A function of tensors and the point to check it at.

    `checked` has the positions of the inputs that a gradient is checked for, and `point` their arrays.
    """

    def __init__(self, fn: Callable[..., Any], inputs: Any, caller: str = "gradcheck"):
        self.fn = fn
        self.caller = caller
        name = getattr(fn, "__name__", None) or repr(fn)
        self.name = "function" if name == "<lambda>" else name
        single = isinstance(inputs, Value) or backend.is_array(inputs)
        self.tensors = [x if isinstance(x, Tensor) else Tensor(x) for x in ([inputs] if single else inputs)]
        for k, x in enumerate(self.tensors):
            if x.dtype.kind == "f" and x.dtype != np.float64:
                raise ValueError(
                    f"{caller}: input {k} is {x.dtype}, float64 is needed: a difference quotient loses half of the "
                    "digits, and of float32 too few are left to tell a wrong gradient from rounding"
                )
        self.checked = [k for k, x in enumerate(self.tensors) if x.dtype == np.float64 and x.requires_grad]
        if not self.checked:
            raise ValueError(f"{caller}: no input to check: at least one must be float64 and require grad")
        self.point = [self.tensors[k].numpy() for k in self.checked]

    def __call__(self, tensors: Sequence[Tensor]) -> tuple:
        """The floating outputs."""
        outputs = self.fn(*tensors)
        outputs = tuple(outputs) if isinstance(outputs, (tuple, list, TensorTuple)) else (outputs,)
        for out in outputs:
            if not isinstance(out, Tensor):
                raise TypeError(f"{self.caller}: {self.name} must give tensors, got {type(out).__name__}")
            if out.dtype.kind == "f" and out.dtype != np.float64:
                raise ValueError(f"{self.caller}: {self.name} gives {out.dtype}, float64 is needed to measure a slope")
        return tuple([out for out in outputs if out.dtype.kind == "f"])

    def leaves(self, point: Arrays, requires_grad: bool) -> list[Tensor]:
        """The inputs with the checked ones at `point`; at the original point with their very arrays and strides."""
        tensors = list(self.tensors)
        for k, x, original in zip(self.checked, point, self.point):
            array = tensors[k].cached_data if x is original else tensors[k].device.array(x)
            tensors[k] = Tensor.make_const(array, requires_grad=requires_grad)
        return tensors

    def evaluate(self, point: Arrays) -> np.ndarray:
        """The values of all outputs, as one vector."""
        with no_grad():
            return flat([out.numpy() for out in self(self.leaves(point, requires_grad=False))])


class Record:
    """A function applied once: its graph, and a random cotangent for each output."""

    def __init__(self, function: Function, point: Arrays, rng: np.random.Generator):
        self.function = function
        self.point = point
        tensors = function.leaves(point, requires_grad=True)
        with enable_grad():
            self.outputs = function(tensors)
        self.inputs = [tensors[k] for k in function.checked]
        self.values = flat([out.numpy() for out in self.outputs])
        self.cotangents = [random(rng, out.shape) for out in self.outputs]
        self.cotangent = flat(self.cotangents)

    def nodes(self) -> list:
        """The applications of ops, but for the engine's own."""
        order = find_topo_sort([out for out in self.outputs if out.requires_grad])
        return [node for node in order if node.op is not None and type(node.op).__module__ != Value.__module__]

    def seeds(self) -> list[Tensor]:
        """The cotangents as tensors."""
        return [Tensor(v, device=out.device, requires_grad=False) for out, v in zip(self.outputs, self.cotangents)]

    def gradients(self, create_graph: bool) -> Arrays:
        """The gradients that the engine gives, one for each checked input."""
        used = [(out, seed) for out, seed in zip(self.outputs, self.seeds()) if out.requires_grad]
        if not used:
            return [np.zeros(x.shape) for x in self.inputs]
        outputs, seeds = zip(*used)
        grads = grad(outputs, self.inputs, seeds, create_graph, retain_graph=True, allow_unused=True)
        for k, x, g in zip(self.function.checked, self.inputs, grads):
            if g.shape != x.shape or g.dtype != x.dtype:
                what = f"the gradient of input {k} is {g.dtype} {g.shape}, the input {x.dtype} {x.shape}"
                raise GradientError(f"{self.function.name}: {what}", self.function.name, what, k)
        return [g.numpy() for g in grads]


def flat(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """All elements as one vector."""
    return np.concatenate([a.ravel() for a in arrays]) if arrays else np.zeros(0)


def random(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of both signs with magnitudes from ½ to 1: none so small that what it multiplies would go unseen."""
    return rng.uniform(0.5, 1.0, shape) * rng.choice([-1.0, 1.0], shape)


def random_direction(rng: np.random.Generator, point: Arrays) -> Arrays:
    """A random direction, longer along large elements."""
    return [random(rng, x.shape) * np.maximum(1.0, np.abs(x)) for x in point]
