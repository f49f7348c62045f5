"""Tuples of tensors: making, taking apart, stacking and splitting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import backend
from ..autograd import TensorOp, TensorTuple, TensorTupleOp
from ..backend import Array, array_module
from .common import apply, as_number, as_value, as_values, normalize_axis, shape_of


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

    def __call__(self, a: Any) -> Any:
        self.c0, self.c1 = (as_number("FusedAddScalars", c) for c in (self.c0, self.c1))
        return super().__call__(as_value("FusedAddScalars", a))

    def compute(self, a: Array) -> tuple:
        return a + backend.weak(self.c0, a), a + backend.weak(self.c1, a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad[0] + out_grad[1]


class Stack(TensorOp):
    """The arrays of a tuple joined along a new axis"""

    reads = ()

    def __init__(self, axis: int = 0):
        self.axis = axis

    def __call__(self, args: Any) -> Any:
        return stack(args, self.axis) if type(self) is Stack else apply(self, args)

    def compute(self, arrays: tuple) -> Array:
        return array_module(arrays[0]).stack(arrays, axis=self.axis)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return (split(out_grad, self.axis),)


class Split(TensorTupleOp):
    """The slices along an axis, which disappears"""

    reads = ()

    def __init__(self, axis: int = 0):
        self.axis = axis

    def __call__(self, a: Any) -> Any:
        return split(a, self.axis) if type(self) is Split else super().__call__(a)

    def compute(self, a: Array) -> tuple:
        return tuple(array_module(a).moveaxis(a, self.axis, 0))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return stack(out_grad, self.axis)


def make_tuple(*args: Any) -> Any:
    """A `TensorTuple` of the given tensors (a tuple of arrays, if all are arrays).

    Raises
    ------
    TypeError
        If one holds no numbers.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.make_tuple(ndl.Tensor([1.0]), ndl.Tensor([2.0, 3.0]))
    needle.TensorTuple([1.], [2. 3.])
    """
    return MakeTensorTuple()(*as_values("MakeTensorTuple", args))


def tuple_get_item(value: Any, index: int) -> Any:
    """Item `index` of a `TensorTuple`; negative ones count from the end.

    Raises
    ------
    IndexError
        If there is no such item.
    TypeError
        If `value` is no tuple or `index` no integer.
    """
    if not isinstance(value, (TensorTuple, tuple)):
        raise TypeError(f"tuple_get_item: a TensorTuple is needed, got {type(value).__name__}")
    if not isinstance(index, (int, np.integer)):
        raise TypeError(f"tuple_get_item: the index is an integer, got {index!r}")
    if not -len(value) <= index < len(value):
        raise IndexError(f"tuple_get_item: index {index} is out of range for a tuple of {len(value)}")
    return value[int(index)]


def fused_add_scalars(a: Any, c0: float, c1: float) -> Any:
    """The tuple (a + c0, a + c1) from one op, for numbers as `add_scalar` takes them.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.fused_add_scalars(ndl.Tensor([1.0]), 10, 20)
    needle.TensorTuple([11.], [21.])
    """
    return FusedAddScalars(c0, c1)(a)


def stack(args: Sequence[Any], axis: int = 0) -> Any:
    """Tensors of one shape joined along a new axis.

    Parameters
    ----------
    args : sequence of Tensor
        n tensors of one shape. Unequal dtypes promote as in NumPy.
    axis : int
        Where the new axis, of size n, stands in the result.

    Raises
    ------
    ValueError
        If there are none, shapes differ, the axis is out of range, or they live on different devices.
    TypeError
        If one holds no numbers.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.stack([ndl.Tensor([1.0, 2.0]), ndl.Tensor([3.0, 4.0])], axis=1)
    needle.Tensor([[1. 3.]
     [2. 4.]])
    """
    values = as_values("Stack", args)
    first = shape_of(values[0])
    for value in values[1:]:
        if shape_of(value) != first:
            raise ValueError(f"Stack: shapes {first} and {shape_of(value)} differ")
    op = Stack(normalize_axis("Stack", axis, len(first) + 1))
    return apply(op, args if isinstance(args, TensorTuple) else make_tuple(*values))


def split(a: Any, axis: int = 0) -> Any:
    """The slices of `a` along an axis, which disappears.

    Parameters
    ----------
    a : Tensor
        At least one axis.
    axis : int
        Of size n.

    Returns
    -------
    TensorTuple
        n tensors, views of `a`.

    Raises
    ------
    ValueError
        If the axis is out of range.

    Examples
    --------
    >>> import needle as ndl
    >>> first, second = ndl.split(ndl.Tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    >>> second
    needle.Tensor([3. 4.])
    """
    a = as_value("Split", a)
    return TensorTupleOp.__call__(Split(normalize_axis("Split", axis, len(shape_of(a)))), a)
