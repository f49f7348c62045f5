"""Layers without memory of what they saw, ways to put modules together, and the loss of a classifier."""

from __future__ import annotations

import math
import operator
from typing import Any

from .. import backend, init, kernels, ops
from ..autograd import Tensor
from ..backend import Device
from ..ops.checks import check_real
from ..ops.dropout import Dropout as DropoutOp
from .module import Module, Parameter


def check_size(name: str, value: Any, what: str) -> int:
    """`value` if it is a positive integer, else an error in the terms of the module `name`."""
    try:
        size = operator.index(value)
    except TypeError:
        size = None
    if size is None or isinstance(value, bool):
        raise TypeError(f"{name}: {what} is a positive integer, got {value!r}")
    if size < 1:
        raise ValueError(f"{name}: {what} is a positive integer, got {value!r}")
    return size


def check_module(name: str, what: str, module: Any) -> None:
    """Raise unless `module` can be called on tensors, in the terms of the module `name` that it is given to."""
    if isinstance(module, type):
        raise TypeError(f"{name}: {what} is the class {module.__name__}: an instance is needed, {module.__name__}(…)")
    if not callable(module):
        hint = f": {name}(*modules) unpacks them" if name == "Sequential" and isinstance(module, (list, tuple)) else ""
        raise TypeError(f"{name}: {what} is a {type(module).__name__}: a module is needed{hint}")


def check_input(name: str, x: Any) -> Any:
    """`x` if it is a tensor, else an error in the terms of the module `name`."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: a Tensor is needed as input, got {type(x).__name__}: ndl.Tensor(x) makes one")
    return x


class Identity(Module):
    """Its input."""

    def forward(self, x: Any) -> Any:
        """`x` itself."""
        return x


class Linear(Module):
    """x·W + b over the last axis.

    Parameters
    ----------
    in_features, out_features : int
        Sizes of the last axis before and after.
    bias : bool
        Whether there is a b.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    weight : Parameter
        Shape (in_features, out_features), drawn by `needle.init.kaiming_uniform`, before the bias.
    bias : Parameter or None
        Shape (1, out_features), drawn as ``kaiming_uniform(out_features, 1)``.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer.

    Examples
    --------
    >>> import needle as ndl
    >>> layer = ndl.nn.Linear(3, 2)
    >>> layer(ndl.init.rand(5, 3)).shape
    (5, 2)
    >>> layer
    Linear(in_features=3, out_features=2) · weight (3, 2), bias (1, 2) · 8 parameters
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Device | None = None,
        dtype: Any = "float32",
    ):
        super().__init__(device, dtype)
        self.in_features = check_size("Linear", in_features, "in_features")
        self.out_features = check_size("Linear", out_features, "out_features")
        kind: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight = Parameter(init.kaiming_uniform(in_features, out_features, **kind))
        self.bias = (
            Parameter(init.kaiming_uniform(out_features, 1, **kind).reshape((1, out_features))) if bias else None
        )

    def forward(self, x: Any) -> Any:
        """Shape (…, in_features) → (…, out_features)."""
        shape = check_input("Linear", x).shape
        if not shape or shape[-1] != self.in_features:
            raise ValueError(
                f"Linear(in_features={self.in_features}, out_features={self.out_features}): "
                f"an input of shape (…, {self.in_features}) is needed, got {shape}"
            )
        return ops.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Its sizes."""
        return f"in_features={self.in_features}, out_features={self.out_features}"


class Flatten(Module):
    """All axes but the first as one.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.nn.Flatten()(ndl.init.rand(5, 2, 3)).shape
    (5, 6)
    """

    def forward(self, x: Any) -> Any:
        """Shape (N, …) → (N, product of …)."""
        shape = check_input("Flatten", x).shape
        if not shape:
            raise ValueError("Flatten: an input of shape (N, …) is needed, got a 0-d tensor")
        return ops.reshape(x, (shape[0], math.prod(shape[1:])))


class ReLU(Module):
    """max(x, 0) elementwise."""

    def forward(self, x: Any) -> Any:
        """Of the shape of `x`."""
        return ops.relu(x)


class Tanh(Module):
    """tanh elementwise."""

    def forward(self, x: Any) -> Any:
        """Of the shape of `x`."""
        return ops.tanh(x)


class Sigmoid(Module):
    """The logistic function 1/(1 + e⁻ˣ) elementwise."""

    def forward(self, x: Any) -> Any:
        """Of the shape of `x`."""
        return ops.sigmoid(x)


class Sequential(Module):
    """Modules one after the other.

    Parameters
    ----------
    *modules : Module or callable
        Each is applied to what the one before gave.

    Raises
    ------
    TypeError
        If one cannot be called.

    Examples
    --------
    >>> import needle as ndl
    >>> model = ndl.nn.Sequential(ndl.nn.Flatten(), ndl.nn.Linear(6, 4), ndl.nn.ReLU(), ndl.nn.Linear(4, 1, bias=False))
    >>> model(ndl.init.rand(5, 2, 3)).shape
    (5, 1)
    >>> model
    Sequential · 32 parameters
    ├─ modules.0: Flatten
    ├─ modules.1: Linear(in_features=6, out_features=4) · weight (6, 4), bias (1, 4) · 28 parameters
    ├─ modules.2: ReLU
    └─ modules.3: Linear(in_features=4, out_features=1) · weight (4, 1) · 4 parameters
    """

    def __init__(self, *modules: Any, device: Device | None = None, dtype: Any = "float32"):
        super().__init__(device, dtype)
        for position, module in enumerate(modules):
            check_module("Sequential", f"module {position}", module)
        self.modules = modules

    def forward(self, x: Any) -> Any:
        """What the last module gives."""
        for module in self.modules:
            x = module(x)
        return x


class Residual(Module):
    """fn(x) + x.

    Parameters
    ----------
    fn : Module or callable
        Its results have the shape of its input.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.nn.Residual(ndl.nn.ReLU())(ndl.Tensor([-1.0, 1.0]))
    needle.Tensor([-1.  2.])
    """

    def __init__(self, fn: Any, device: Device | None = None, dtype: Any = "float32"):
        super().__init__(device, dtype)
        check_module("Residual", "fn", fn)
        self.fn = fn

    def forward(self, x: Any) -> Any:
        """Of the shape of `x`."""
        y = self.fn(check_input("Residual", x))
        if not isinstance(y, Tensor):
            raise TypeError(f"Residual: fn gave {type(y).__name__}, a Tensor of shape {x.shape} is needed")
        if y.shape != x.shape:
            raise ValueError(f"Residual: fn turned shape {x.shape} into {y.shape}; to be added both must be equal")
        return y + x


class Dropout(Module):
    """In training, zeros with probability p and the rest divided by 1 − p, so that the mean stays; else the input.

    The mask is drawn as ``init.randb(*x.shape, p=1 - p)``; on a GPU, by the GPU (see `needle.random`).

    Parameters
    ----------
    p : float
        The probability of a zero, in [0, 1).

    Raises
    ------
    TypeError, ValueError
        If `p` is not.

    References
    ----------
    N. Srivastava et al.: Dropout: a simple way to prevent neural networks from overfitting. JMLR 15, 2014.

    Examples
    --------
    >>> import numpy as np, needle as ndl
    >>> np.random.seed(0)
    >>> layer = ndl.nn.Dropout(0.5)
    >>> layer(ndl.init.ones(5, device=ndl.cpu()))
    needle.Tensor([0. 0. 0. 0. 2.])
    >>> layer.eval()(ndl.init.ones(5))
    needle.Tensor([1. 1. 1. 1. 1.])
    """

    def __init__(self, p: float = 0.5, device: Device | None = None, dtype: Any = "float32"):
        super().__init__(device, dtype)
        check_real("Dropout", "p", p)
        if not 0 <= p < 1:
            raise ValueError(f"Dropout: p is the probability of a zero, in [0, 1); got {p}")
        self.p = p

    def forward(self, x: Any) -> Any:
        """Of the shape of `x`."""
        check_input("Dropout", x)
        if not self.training:
            return x
        if x.dtype.kind != "f":
            raise TypeError(f"Dropout: a floating input is needed, got {x.dtype}: x.astype('float32')")
        if kernels.fit(x.realize_cached_data()):
            return DropoutOp(1 - self.p)(x)
        kept = init.randb(*x.shape, p=1 - self.p, device=x.device).cached_data
        with backend.scope(kept):
            mask = kept.astype(x.dtype)
            mask *= 1 / (1 - self.p)
        return x * Tensor.make_const(mask)

    def extra_repr(self) -> str:
        """Its probability."""
        return f"p={self.p}"


class SoftmaxLoss(Module):
    """The mean cross entropy of logits and integer labels, in nats: −ln softmax(logits)[label].

    Examples
    --------
    >>> import needle as ndl
    >>> loss = ndl.nn.SoftmaxLoss()(ndl.Tensor([[0.0, 0.0]]), ndl.Tensor([1]))
    >>> round(loss.item(), 6)  # ln 2
    0.693147
    """

    def __init__(self, device: Device | None = None, dtype: Any = "float32"):
        super().__init__(device, dtype)

    def forward(self, logits: Any, y: Any) -> Any:
        """Logits of shape (N, classes) and integers y of shape (N,) → a 0-d tensor. See `needle.ops.cross_entropy`."""
        return ops.cross_entropy(logits, y)
