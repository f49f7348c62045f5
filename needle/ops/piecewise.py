"""Functions made of pieces: absolute value, maxima, choices and comparisons.

Subgradients at kinks
---------------------
`relu`, `abs`, `maximum`, `minimum`, and `max`/`min` over axes follow one convention: where a function has a kink, its
gradient is the subgradient of least norm (the one whose negative is the direction of steepest descent; Rockafellar,
*Convex Analysis*, 1970). So relu'(0) = 0 and abs'(0) = 0, and arguments that tie for the maximum get equal shares.
It follows that ``abs(x)``, ``maximum(x, -x)`` and ``relu(x) + relu(-x)`` agree everywhere, and so do ``relu(x)``,
``maximum(x, 0.0)`` and ``where(x > 0, x, 0.0)``. `where` itself has no kink: its gradient goes where its value came
from.

NaN
---
Where a value is NaN, `relu`, `maximum` and `minimum` pass the gradient on to every argument, as PyTorch's functions of
these names do: a gradient of 0 would say that the argument did not matter. `abs`, and `max`/`min` over axes, have the
gradient NaN there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import backend
from ..autograd import Tensor, TensorOp, Value
from ..backend import Array, array_module
from .arithmetic import Elementwise, WithScalar, broadcast_together
from .common import apply, as_scalar, as_scalar_beside, as_value, broadcast_shape, check_devices, constant, shape_of


class ReLU(TensorOp):
    """max(a, 0); the derivative at 0 is 0"""

    reads = ("output",)

    def compute(self, a: Array) -> Array:
        return array_module(a).maximum(a, a.dtype.type(0))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad * constant(lambda y: y != 0, node.output)  # of a value that is not negative: positive, or NaN


class Abs(TensorOp):
    """|a|; the derivative at 0 is 0"""

    reads = ("inputs",)

    def compute(self, a: Array) -> Array:
        return abs(a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        (a,) = node.inputs
        return out_grad * sign(a)


class Maximum(Elementwise):
    """max(a, b) elementwise; where a = b, each gets half of the gradient"""

    reads = ("inputs",)

    def compute(self, a: Array, b: Array) -> Array:
        return array_module(a).maximum(a, b)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        a, b = node.inputs
        need_a, need_b = node.needs_input_grad
        return (
            out_grad * constant(self.share, a, b) if need_a else None,
            out_grad * constant(self.share, b, a) if need_b else None,
        )

    @staticmethod
    def share(a: Array, b: Array) -> Array:
        """The part of the gradient that `a` gets: 1 where it is larger or one is NaN, ½ where both are equal."""
        return _share(a < b, a <= b, a)


class Minimum(Maximum):
    """min(a, b) elementwise; where a = b, each gets half of the gradient"""

    def compute(self, a: Array, b: Array) -> Array:
        return array_module(a).minimum(a, b)

    @staticmethod
    def share(a: Array, b: Array) -> Array:
        return _share(a > b, a >= b, a)


def _share(less: Array, not_more: Array, a: Array) -> Array:
    """1 − (less + not_more)/2, in the dtype of `a`"""
    return (a.dtype.type(2) - less - not_more) * backend.weak(0.5, a)


class MaximumScalar(WithScalar):
    """max(a, c); the derivative where a = c is 0"""

    reads = ("output",)

    def compute(self, a: Array) -> Array:
        return array_module(a).maximum(a, backend.weak(self.scalar, a))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad * constant(lambda y: y != backend.weak(self.scalar, y), node.output)


class MinimumScalar(WithScalar):
    """min(a, c); the derivative where a = c is 0"""

    reads = ("output",)

    def compute(self, a: Array) -> Array:
        return array_module(a).minimum(a, backend.weak(self.scalar, a))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad * constant(lambda y: y != backend.weak(self.scalar, y), node.output)


class Where(Elementwise):
    """a where the condition holds, else b"""

    reads = ("inputs",)

    def __call__(self, condition: Any, a: Any, b: Any) -> Any:
        _check_condition(condition)
        return super().__call__(condition, a, b)

    def compute(self, condition: Array, a: Array, b: Array) -> Array:
        return array_module(condition).where(condition, a, b)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        condition = node.inputs[0]
        _, need_a, need_b = node.needs_input_grad
        return (
            None,
            where(condition, out_grad, 0.0) if need_a else None,
            where(condition, 0.0, out_grad) if need_b else None,
        )


# ------------------------------------------------------------------------------------------------------------ functions


def relu(a: Any) -> Any:
    """max(a, 0) elementwise, of the same shape and dtype; the derivative at 0 is 0."""
    return ReLU()(as_value("ReLU", a))


def abs_(a: Any) -> Any:
    """|a| elementwise, of the same shape and dtype; the derivative at 0 is 0. Also Python's ``abs(tensor)``."""
    return Abs()(as_value("Abs", a))


def sign(a: Any) -> Any:
    """−1, 0 or 1 elementwise: a constant, whose derivative is 0 wherever it exists. Booleans are a TypeError."""
    a = as_value("sign", a)
    if a.dtype.kind == "b":
        raise TypeError("sign: a boolean tensor has no sign: astype('float32') makes it numbers")
    return constant(lambda x: array_module(x).sign(x), a)


def maximum(a: Any, b: Any) -> Any:
    """The larger of a and b elementwise. Where they are equal, each gets half of the gradient.

    Parameters
    ----------
    a, b : Tensor, array_like or number
        Shapes that broadcast as in NumPy. A number takes the other's dtype.

    Raises
    ------
    ValueError
        If the shapes do not broadcast, or the operands live on different devices.
    TypeError
        If an operand holds no numbers.

    Examples
    --------
    >>> import needle as ndl
    >>> a, b = ndl.Tensor([1.0, 2.0, 3.0]), ndl.Tensor([3.0, 2.0, 1.0])
    >>> ndl.maximum(a, b).sum().backward()
    >>> a.grad, b.grad
    (needle.Tensor([0.  0.5 1. ]), needle.Tensor([1.  0.5 0. ]))
    """
    return _extremum(Maximum, MaximumScalar, a, b)


def minimum(a: Any, b: Any) -> Any:
    """The smaller of a and b elementwise, as `maximum` takes them.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.minimum(ndl.Tensor([1.0, 2.0, 3.0]), 2.0)
    needle.Tensor([1. 2. 2.])
    """
    return _extremum(Minimum, MinimumScalar, a, b)


def _extremum(op: type[Maximum], with_scalar: Callable[[Any], TensorOp], a: Any, b: Any) -> Any:
    for x, y in ((a, b), (b, a)):
        scalar = as_scalar_beside(y, x)
        if scalar is not None and as_scalar_beside(x, y) is None:
            return apply(with_scalar(scalar), as_value(op.__name__, x))
    return apply(op(), *broadcast_together(op.__name__, a, b))


def where(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, else `b`.

    Parameters
    ----------
    condition : Tensor or array
        Boolean. All three broadcast as in NumPy.
    a, b : Tensor, array_like or number
        A number takes the other's dtype, as in arithmetic.

    Raises
    ------
    TypeError
        If the condition is not boolean, or an operand holds no numbers.
    ValueError
        If the shapes do not broadcast, or the operands live on different devices.

    Examples
    --------
    >>> import needle as ndl
    >>> x = ndl.Tensor([-1.0, 2.0])
    >>> ndl.where(x > 0, x, 0.0)
    needle.Tensor([0. 2.])
    """
    _check_condition(condition)
    values = [a, b]
    scalars = [as_scalar_beside(a, b), as_scalar_beside(b, a)]
    for i, scalar in enumerate(scalars):
        if scalar is not None and scalars[1 - i] is None:
            values[i] = constant(lambda x, s=scalar: _as_constant(s, x), as_value("Where", values[1 - i]))
    return apply(Where(), *broadcast_together("Where", condition, *values))


def _check_condition(condition: Any) -> None:
    kind = getattr(condition, "dtype", None)
    if kind is None or kind.kind != "b":
        raise TypeError(f"Where: the condition must be boolean, got {kind or type(condition).__name__}")


def _as_constant(scalar: Any, like: Array) -> Array:
    return array_module(like).asarray(scalar, dtype=np.result_type(like.dtype, scalar))


def compare(symbol: str, fn: Callable[[Array, Any], Array], a: Any, b: Any) -> Any:
    """A comparison as a constant boolean tensor."""
    scalar = as_scalar(b)
    if scalar is not None:
        return constant(lambda x: _against(fn, x, scalar), a)
    if not (isinstance(b, Value) or backend.is_array(b)):
        return NotImplemented
    if not isinstance(b, Tensor):
        b = Tensor(as_value(symbol, b), device=a.device, requires_grad=False)
    broadcast_shape(symbol, shape_of(a), shape_of(b))
    check_devices(symbol, a, b)
    return constant(fn, a, b)


def _against(fn: Callable[[Array, Any], Array], x: Array, scalar: Any) -> Array:
    """``fn(x, scalar)``, also for an integer beyond the dtype of `x`, which cupy refuses: all compare with it alike."""
    if type(x) is not np.ndarray and x.dtype.kind in "iu" and type(scalar) is int:
        limits = np.iinfo(x.dtype)
        if not limits.min <= scalar <= limits.max:
            return array_module(x).full(x.shape, fn(0, scalar))
    return fn(x, scalar)
