"""Derivatives of fused ops beyond the first, from the same function written with ordinary ops.

A fused op computes its value and, in a second op, its gradient by hand. The gradient of that second op is needed only
when somebody differentiates twice. Then it is worth more that it be right than that it be fast, and the engine can work
it out: the fused gradient is the vector-Jacobian product (vjp) of a function that ordinary ops can express, `Vjp`
computes such a product as one node, and the gradient of a `Vjp` is a `Vjp` again, to any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import backend
from ..autograd import Tensor, TensorTupleOp, enable_grad, grad
from ..backend import Array

Function = Callable[..., Sequence[Tensor]]


class FusedGradient(TensorTupleOp):
    """Base of the ops that compute a fused op's gradient by hand

    Such an op's inputs are those of the fused op, then the cotangents of its results, then what it saved. Its value is
    a tuple of the gradients of those inputs of the fused op that need one.

    Subclasses define `compute` and `function`, the fused op written with ordinary ops, from which the gradient's own
    gradient is worked out. What was saved follows from the inputs and has no gradient of its own.
    """

    reads = ("inputs",)
    cotangents = 1  #: how many results of the fused op have a cotangent here
    saved = 0  #: how many arrays it saved

    def __init__(self, needs: tuple[bool, ...]):
        self.needs = needs

    def function(self, *inputs: Tensor) -> Sequence[Tensor]:
        """The fused op's results, made of ordinary ops."""
        raise NotImplementedError

    def gradient(self, out_grad: Any, node: Any) -> Any:
        vjp = Vjp(self.function, self.cotangents)

        def derivative(*arguments: Tensor) -> Sequence[Tensor]:
            return [g for g, need in zip(vjp.apply(arguments, create_graph=True), self.needs) if need]

        arguments = node.inputs[: len(node.inputs) - self.saved]
        return (*Vjp(derivative, len(out_grad))(*arguments, *out_grad), *[None] * self.saved)

    def only_needed(self, *makers: Callable[[], Array]) -> tuple:
        """The values of those functions, one per input, whose input needs a gradient."""
        return tuple([make() for make, need in zip(makers, self.needs) if need])

    def __call__(self, *args: Any) -> Any:
        """One gradient for each input of the fused op; None for those that need none."""
        given = iter(super().__call__(*args))
        return tuple([next(given) if need else None for need in self.needs])


class Vjp(TensorTupleOp):
    """The gradients of ⟨fn(x…), ȳ…⟩ with respect to the x; the op's inputs are the x and then the cotangents ȳ

    `fn` takes tensors, applies ordinary ops to them, and gives `outputs` tensors. It is run on tensors of its own, so
    that nothing but its arguments can reach it.

    Examples
    --------
    >>> import numpy as np
    >>> def cube(x):
    ...     return (x * x * x,)
    >>> Vjp(cube, outputs=1)(np.array(2.0), np.array(1.0))
    (array(12.),)
    """

    reads = ("inputs",)

    def __init__(self, fn: Function, outputs: int):
        self.fn = fn
        self.outputs = outputs

    def compute(self, *arrays: Array) -> tuple:
        with enable_grad():
            arguments = [Tensor._from_array(array, True) for array in arrays]
            return tuple([g.realize_cached_data() for g in self.apply(arguments, create_graph=False)])

    def gradient(self, out_grad: Any, node: Any) -> Any:
        def derivative(*arguments: Tensor) -> Sequence[Tensor]:
            return self.apply(arguments, create_graph=True)

        return tuple(Vjp(derivative, outputs=len(out_grad))(*node.inputs, *out_grad))

    def apply(self, arguments: Sequence[Tensor], create_graph: bool) -> Sequence[Tensor]:
        """The products as tensors, connected to `arguments` if `create_graph` is set."""
        inputs, cotangents = arguments[: -self.outputs], arguments[-self.outputs :]
        # A derivative may be constant, a linear function's for one: nothing flows through it.
        pairs = [(y, g) for y, g in zip(self.fn(*inputs), cotangents) if y.requires_grad]
        if not pairs:
            return [Tensor._from_array(backend.zeros_like(x.realize_cached_data()), False) for x in inputs]
        results, out_grads = zip(*pairs)
        return grad(results, inputs, out_grads, create_graph=create_graph, allow_unused=True)
