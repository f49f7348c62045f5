"""Arithmetic: +, −, ·, /, ** of two tensors or of a tensor and a number.

Two operands of unequal shapes are broadcast by explicit `BroadcastTo` nodes first: no gradient here speaks of it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import backend
from ..autograd import TensorOp
from ..backend import Array, array_module
from .common import apply, as_number, as_value, broadcast_shape, constant, on_one_device, shape_of
from .elementwise import log
from .shape import broadcast_to


class Elementwise(TensorOp):
    """An op on operands of one shape: those of others are broadcast first, by explicit nodes"""

    def __call__(self, *values: Any) -> Any:
        return apply(self, *broadcast_together(type(self).__name__, *values))


class WithScalar(TensorOp):
    """An op of a tensor and a number"""

    def __init__(self, scalar: Any):
        self.scalar = scalar

    def __call__(self, a: Any) -> Any:
        name = type(self).__name__
        self.scalar = as_number(name, self.scalar)
        return apply(self, as_value(name, a))


class EWiseAdd(Elementwise):
    """a + b"""

    reads = ()

    def compute(self, a: Array, b: Array) -> Array:
        return a + b

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad, out_grad


class EWiseMul(Elementwise):
    """a · b"""

    reads = ("inputs",)

    def compute(self, a: Array, b: Array) -> Array:
        return a * b

    def gradient(self, out_grad: Any, node: Any) -> Any:
        a, b = node.inputs
        need_a, need_b = node.needs_input_grad
        return out_grad * b if need_a else None, out_grad * a if need_b else None


class EWiseDiv(Elementwise):
    """a / b"""

    reads = ("inputs", "output")

    def compute(self, a: Array, b: Array) -> Array:
        return a / b

    def gradient(self, out_grad: Any, node: Any) -> Any:
        _, b = node.inputs
        to_a = out_grad / b
        return to_a, -to_a * node.output if node.needs_input_grad[1] else None


class EWisePow(Elementwise):
    """a ** b

    ∂a = b·a^(b−1), ∂b = a^b·ln a. Where a = 0 the limits are taken: ∂b is 0, and ∂a is 0 if b = 0 too.
    """

    reads = ("inputs", "output")

    def compute(self, a: Array, b: Array) -> Array:
        return _power("EWisePow", array_module(a).power, a, b)  # of 0-d arrays, NumPy 1.26's ** loses b's dtype

    def gradient(self, out_grad: Any, node: Any) -> Any:
        a, b = node.inputs
        need_a, need_b = node.needs_input_grad
        to_a = to_b = None
        if need_a:
            both_zero = constant(lambda x, y: (x == 0) & (y == 0), a, b)
            to_a = out_grad * b * a ** (b - 1 + both_zero)
        if need_b:
            zero = constant(lambda x: x == 0, a)
            to_b = out_grad * node.output * log(a + zero)
        return to_a, to_b


class AddScalar(WithScalar):
    """a + c"""

    reads = ()

    def compute(self, a: Array) -> Array:
        return a + backend.weak(self.scalar, a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad


class MulScalar(WithScalar):
    """c · a"""

    reads = ()

    def compute(self, a: Array) -> Array:
        return a * backend.weak(self.scalar, a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad * self.scalar


class DivScalar(WithScalar):
    """a / c"""

    reads = ()

    def compute(self, a: Array) -> Array:
        return a / backend.weak(self.scalar, a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad / self.scalar


class ScalarDiv(WithScalar):
    """c / a, whose derivative is −(c/a)/a"""

    reads = ("inputs", "output")

    def compute(self, a: Array) -> Array:
        return backend.weak(self.scalar, a) / a

    def gradient(self, out_grad: Any, node: Any) -> Any:
        (a,) = node.inputs
        return -out_grad * node.output / a


class PowerScalar(WithScalar):
    """a ** c, whose derivative is c·a^(c−1)"""

    reads = ("inputs",)

    def compute(self, a: Array) -> Array:
        if self.scalar == 2 and a.dtype.kind != "b":
            return a * a
        return _power("PowerScalar", operator.pow, a, backend.weak(self.scalar, a))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        (a,) = node.inputs
        c = self.scalar
        if c == 0:  # 0·a^(−1) would be NaN at a = 0
            return out_grad * 0
        if c == 1:
            return out_grad * c
        return out_grad * (c * (a if c == 2 else power_scalar(a, c - 1)))


class ScalarPower(WithScalar):
    """c ** a, whose derivative is c^a·ln c (0 for c = 0; NaN for negative c, which has no real power at most a)"""

    reads = ("output",)

    def compute(self, a: Array) -> Array:
        return _power("ScalarPower", operator.pow, backend.weak(self.scalar, a), a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        c = self.scalar
        return out_grad * node.output * (math.log(c) if c > 0 else 0.0 if c == 0 else math.nan)


def _power(name: str, fn: Callable[[Any, Any], Array], base: Any, exponent: Any) -> Array:
    try:
        result = fn(base, exponent)
        if type(result) is not np.ndarray and _loses_fractions(result, exponent):
            raise ValueError
        return result
    except ValueError:  # what NumPy says of integers to negative powers
        raise ValueError(f"{name}: an integer to a negative integer power is a fraction: use a float dtype") from None


def _loses_fractions(result: Array, exponent: Any) -> bool:
    """Whether cupy has made 0 of an integer to a negative integer power."""
    if array_module(result) is np or result.dtype.kind != "i":
        return False
    return bool(exponent < 0 if isinstance(exponent, (int, np.integer)) else (exponent < 0).any())


class Negate(TensorOp):
    """−a"""

    reads = ()

    def compute(self, a: Array) -> Array:
        if a.dtype.kind == "b":
            raise TypeError("Negate: a boolean tensor has no negative: astype('float32') makes it numbers")
        return -a

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return -out_grad


# ------------------------------------------------------------------------------------------------------------ functions


def broadcast_together(name: str, *values: Any) -> tuple:
    """The values (tensors or arrays of one device), broadcast to their common shape by explicit nodes."""
    values = on_one_device(name, *[as_value(name, v) for v in values])
    shapes = [shape_of(v) for v in values]
    shape = broadcast_shape(name, *shapes)
    return tuple([v if own == shape else broadcast_to(v, shape) for v, own in zip(values, shapes)])


def _binary(op: TensorOp, a: Any, b: Any) -> Any:
    return apply(op, *broadcast_together(type(op).__name__, a, b))


_ADD, _MUL, _DIV, _POW = EWiseAdd(), EWiseMul(), EWiseDiv(), EWisePow()


def add(a: Any, b: Any) -> Any:
    """a + b elementwise.

    Parameters
    ----------
    a, b : Tensor or array_like
        Shapes that broadcast as in NumPy. Two dtypes promote as in NumPy; each operand gets its gradient in its own.

    Returns
    -------
    Tensor
        Of the common shape.

    Raises
    ------
    ValueError
        If the shapes do not broadcast, or the operands live on different devices.
    TypeError
        If an operand holds no numbers.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.add(ndl.Tensor([[1.0], [2.0]]), ndl.Tensor([10.0, 20.0]))
    needle.Tensor([[11. 21.]
     [12. 22.]])
    """
    return _binary(_ADD, a, b)


def multiply(a: Any, b: Any) -> Any:
    """a · b elementwise. Shapes, dtypes and errors are those of `add`."""
    return _binary(_MUL, a, b)


def divide(a: Any, b: Any) -> Any:
    """a / b elementwise; integers give floats. Shapes, dtypes and errors are those of `add`."""
    return _binary(_DIV, a, b)


def power(a: Any, b: Any) -> Any:
    """a ** b elementwise; NaN where a is negative and b is no integer. Shapes, dtypes and errors are those of `add`.

    Raises
    ------
    ValueError
        Also if both are integers and an exponent is negative.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.power(ndl.Tensor([2.0, 3.0]), ndl.Tensor([3.0, 2.0]))
    needle.Tensor([8. 9.])
    """
    return _binary(_POW, a, b)


def add_scalar(a: Any, scalar: Any) -> Any:
    """a + c for a number c.

    Parameters
    ----------
    a : Tensor
        Any shape; the result has this shape and, if it is floating, this dtype.
    scalar : number
        Of Python or NumPy, or an array with one element: it takes the tensor's dtype and never widens it.

    Raises
    ------
    TypeError
        If `scalar` is no real number.

    Examples
    --------
    >>> import numpy as np, needle as ndl
    >>> x = ndl.Tensor([1.0, 2.0], dtype="float32")
    >>> ndl.add_scalar(x, np.float64(0.5)).dtype
    dtype('float32')
    """
    return AddScalar(scalar)(a)


def mul_scalar(a: Any, scalar: Any) -> Any:
    """c · a for a number c, as `add_scalar` takes it."""
    return MulScalar(scalar)(a)


def divide_scalar(a: Any, scalar: Any) -> Any:
    """a / c for a number c, as `add_scalar` takes it."""
    return DivScalar(scalar)(a)


def power_scalar(a: Any, scalar: Any) -> Any:
    """a ** c for a number c, as `add_scalar` takes it.

    Raises
    ------
    ValueError
        If `a` holds integers and c is a negative integer.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.power_scalar(ndl.Tensor([1.0, 4.0]), 0.5)
    needle.Tensor([1. 2.])
    """
    return PowerScalar(scalar)(a)


def negate(a: Any) -> Any:
    """−a elementwise, of the same shape and dtype. Booleans are a TypeError."""
    return Negate()(as_value("Negate", a))
