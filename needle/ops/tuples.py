"""Tuples of tensors: making, taking apart, stacking and splitting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd import TensorOp, TensorTupleOp
from ..backend import Array, array_module
from .common import as_value, normalize_axis, shape_of


class MakeTensorTuple(TensorTupleOp):
    """Its inputs, as a tuple"""

    reads = ()

    def compute(self, *arrays: Array) -> tuple:
        return tuple(arrays)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return tuple(out_grad)


class FusedAddScalars(TensorTupleOp):
    """(a + c0, a + c1)"""

    reads = ()

    def __init__(self, c0: float, c1: float):
        self.c0 = c0
        self.c1 = c1

    def compute(self, a: Array) -> tuple:
        return a + self.c0, a + self.c1

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad[0] + out_grad[1]


class Stack(TensorOp):
    """The arrays of a tuple joined along a new axis"""

    reads = ()

    def __init__(self, axis: int):
        self.axis = axis

    def compute(self, arrays: tuple) -> Array:
        return array_module(arrays[0]).stack(arrays, axis=self.axis)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return (split(out_grad, self.axis),)


class Split(TensorTupleOp):
    """The slices along an axis, which disappears"""

    reads = ()

    def __init__(self, axis: int):
        self.axis = axis

    def compute(self, a: Array) -> tuple:
        return tuple(array_module(a).moveaxis(a, self.axis, 0))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return stack(out_grad, self.axis)


def make_tuple(*args: Any) -> Any:
    """A `TensorTuple` of the given tensors."""
    return MakeTensorTuple()(*args)


def tuple_get_item(value: Any, index: int) -> Any:
    """Item `index` of a `TensorTuple`."""
    return value[index]


def fused_add_scalars(a: Any, c0: float, c1: float) -> Any:
    """The tuple (a + c0, a + c1) from one op."""
    return FusedAddScalars(c0, c1)(a)


def stack(args: Sequence[Any], axis: int = 0) -> Any:
    """Tensors of one shape joined along a new axis: n of shape (…) → n at position `axis` among the sizes (…).

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.stack([ndl.Tensor([1.0, 2.0]), ndl.Tensor([3.0, 4.0])], axis=1)
    needle.Tensor([[1. 3.]
     [2. 4.]])
    """
    values = [as_value("Stack", a) for a in args]
    if not values:
        raise ValueError("Stack: at least one tensor is needed")
    first = shape_of(values[0])
    for value in values[1:]:
        if shape_of(value) != first:
            raise ValueError(f"Stack: shapes {first} and {shape_of(value)} differ")
    return Stack(normalize_axis("Stack", axis, len(first) + 1))(make_tuple(*values))


def split(a: Any, axis: int = 0) -> Any:
    """The slices of `a` along `axis` as a `TensorTuple`; the axis disappears.

    Examples
    --------
    >>> import needle as ndl
    >>> first, second = ndl.split(ndl.Tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    >>> second
    needle.Tensor([3. 4.])
    """
    a = as_value("Split", a)
    return Split(normalize_axis("Split", axis, len(shape_of(a))))(a)
