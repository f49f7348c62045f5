"""Ops that move elements without computing: broadcasting and its dual, reshaping, reordering, joining.

`BroadcastTo` and `SumTo` are each other's gradient, one node each. They are the only two ops that know of broadcasting:
elementwise functions put `BroadcastTo` nodes in front of operands of unequal shapes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autograd import TensorOp
from ..backend import Array, Shape, array_module
from .common import Axes, apply, as_integers, as_value, as_values, normalize_axes, normalize_axis, shape_of
from .sums import sum_of_rows


class BroadcastTo(TensorOp):
    """a repeated to a larger shape, as a view"""

    reads = ()

    def __init__(self, shape: Shape):
        self.shape = shape

    def __call__(self, a: Any) -> Any:
        a = as_value("BroadcastTo", a)
        self.shape = _larger(shape_of(a), self.shape)
        return apply(self, a)

    def compute(self, a: Array) -> Array:
        if type(a) is np.ndarray and a.flags.c_contiguous:
            return _repeated(a, self.shape)
        return array_module(a).broadcast_to(a, self.shape)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return sum_to(out_grad, node.inputs[0].shape)


def _repeated(a: np.ndarray, shape: Shape) -> np.ndarray:
    """`np.broadcast_to` of a contiguous array, in a third of its time."""
    new = len(shape) - a.ndim
    strides = [0 if size == 1 else stride for size, stride in zip(a.shape, a.strides)]
    view: np.ndarray = np.ndarray(shape, a.dtype, a, 0, (0,) * new + tuple(strides))
    view.flags.writeable = False
    return view


class SumTo(TensorOp):
    """a summed over all axes that a broadcast from `shape` would have repeated, in one reduction"""

    reads = ()

    def __init__(self, shape: Shape):
        self.shape = shape

    def __call__(self, a: Any) -> Any:
        a = as_value("SumTo", a)
        self.shape = _smaller(shape_of(a), self.shape)
        return apply(self, a)

    def compute(self, a: Array) -> Array:
        new = a.ndim - len(self.shape)
        if a.ndim == 2 and self.shape in (a.shape[1:], (1, a.shape[1])) and type(a) is np.ndarray:
            return sum_of_rows(a).reshape(self.shape)
        repeated = tuple(i + new for i, size in enumerate(self.shape) if size == 1 and a.shape[i + new] != 1)
        wide = "float32" if a.dtype == "float16" else a.dtype  # ones in float16 are counted to 2,048
        total = a.sum(axis=tuple(range(new)) + repeated, dtype=wide)
        return total.astype(a.dtype, copy=False).reshape(self.shape)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return broadcast_to(out_grad, node.inputs[0].shape)


class Reshape(TensorOp):
    """a with the same elements in another shape"""

    reads = ()

    def __init__(self, shape: Shape):
        self.shape = shape

    def __call__(self, a: Any) -> Any:
        a = as_value("Reshape", a)
        _other(shape_of(a), self.shape)
        return apply(self, a)

    def compute(self, a: Array) -> Array:
        return a.reshape(self.shape)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return reshape(out_grad, node.inputs[0].shape)


class Transpose(TensorOp):
    """a with two axes swapped, by default the last two"""

    reads = ()

    def __init__(self, axes: Any = None):
        self.axes = axes

    def __call__(self, a: Any) -> Any:
        return transpose(a, self.axes) if type(self) is Transpose else apply(self, a)

    def compute(self, a: Array) -> Array:
        return a.swapaxes(*(self.axes or (-2, -1)))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return apply(self, out_grad)


class Permute(TensorOp):
    """a with its axes in another order"""

    reads = ()

    def __init__(self, axes: tuple[int, ...]):
        self.axes = axes

    def __call__(self, a: Any) -> Any:
        return permute(a, self.axes) if type(self) is Permute else apply(self, a)

    def compute(self, a: Array) -> Array:
        return a.transpose(self.axes)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return apply(Permute(tuple(int(i) for i in np.argsort(self.axes))), out_grad)


class Flip(TensorOp):
    """a reversed along axes"""

    reads = ()

    def __init__(self, axes: Axes = None):
        self.axes = axes

    def __call__(self, a: Any) -> Any:
        return flip(a, self.axes) if type(self) is Flip else apply(self, a)

    def compute(self, a: Array) -> Array:
        return array_module(a).flip(a, self.axes)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return apply(self, out_grad)


class Concatenate(TensorOp):
    """Arrays joined along an axis that they have"""

    reads = ()

    def __init__(self, axis: int = 0):
        self.axis = axis

    def __call__(self, *arrays: Any) -> Any:
        return concatenate(arrays, self.axis) if type(self) is Concatenate else apply(self, *arrays)

    def compute(self, *arrays: Array) -> Array:
        return array_module(arrays[0]).concatenate(arrays, axis=self.axis)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        grads, start = [], 0
        for a, need in zip(node.inputs, node.needs_input_grad):
            stop = start + a.shape[self.axis]
            grads.append(out_grad[(slice(None),) * self.axis + (slice(start, stop),)] if need else None)
            start = stop
        return tuple(grads)


# ------------------------------------------------------------------------------------------------------------ functions


def broadcast_to(a: Any, shape: Sequence[int]) -> Any:
    """`a` repeated to a larger shape, as a view.

    Parameters
    ----------
    a : Tensor
        Any shape.
    shape : sequence of int
        Where sizes of 1 grow, and new axes come in front. With its own shape, `a` itself is returned.

    Raises
    ------
    ValueError
        If `a` does not broadcast to `shape`.
    TypeError
        If `shape` is not made of integers.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.broadcast_to(ndl.Tensor([1.0, 2.0]), (2, 2))
    needle.Tensor([[1. 2.]
     [1. 2.]])
    """
    a = as_value("BroadcastTo", a)
    old = shape_of(a)
    new = _larger(old, shape)
    return a if new == old else apply(BroadcastTo(new), a)


def _larger(old: Shape, shape: Any) -> Shape:
    """`shape` as a tuple, if `old` broadcasts to it."""
    new = _as_shape("BroadcastTo", shape)
    if new != old and not _broadcasts(old, new):
        raise ValueError(
            f"BroadcastTo: shape {old} does not broadcast to {new}: sizes must be equal or 1, from the last axis"
        )
    return new


@functools.lru_cache(maxsize=1024)
def _broadcasts(small: Shape, large: Shape) -> bool:
    """Whether an array of shape `small` broadcasts to `large`."""
    new = len(large) - len(small)
    return new >= 0 and all(size in (1, want) for size, want in zip(small, large[new:]))


def sum_to(a: Any, shape: Sequence[int]) -> Any:
    """`a` summed to a smaller shape, over every axis that `broadcast_to` from that shape to a's would repeat.

    Parameters
    ----------
    a : Tensor
        Any shape.
    shape : sequence of int
        A shape that broadcasts to that of `a`. With its own shape, `a` itself is returned.

    Raises
    ------
    ValueError
        If `shape` does not broadcast to that of `a`.
    TypeError
        If `shape` is not made of integers.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.sum_to(ndl.Tensor([[1.0, 2.0], [3.0, 4.0]]), (2, 1))
    needle.Tensor([[3.]
     [7.]])
    """
    a = as_value("SumTo", a)
    old = shape_of(a)
    new = _smaller(old, shape)
    return a if new == old else apply(SumTo(new), a)


def _smaller(old: Shape, shape: Any) -> Shape:
    """`shape` as a tuple, if it broadcasts to `old`."""
    new = _as_shape("SumTo", shape)
    if new != old and not _broadcasts(new, old):
        raise ValueError(f"SumTo: shape {old} is no broadcast of {new}")
    return new


def reshape(a: Any, *shape: Any) -> Any:
    """The elements of `a`, in their order, in another shape.

    Parameters
    ----------
    a : Tensor
        Any shape.
    *shape : int, or one sequence of int
        As many elements; one size may be −1 and is worked out.

    Raises
    ------
    ValueError
        If the numbers of elements differ.
    TypeError
        If `shape` is not made of integers.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.reshape(ndl.Tensor([1.0, 2.0, 3.0, 4.0]), (2, -1)).shape
    (2, 2)
    """
    a = as_value("Reshape", a)
    old = shape_of(a)
    new = _other(old, shape[0] if len(shape) == 1 else shape)
    return a if new == old else apply(Reshape(new), a)


def _other(old: Shape, shape: Any) -> Shape:
    """`shape` as a tuple, −1 worked out, if it has as many elements as `old`."""
    new, total = _as_shape("Reshape", shape, free=True), math.prod(old)
    if new.count(-1) > 1:
        raise ValueError(f"Reshape: only one size can be worked out, got {new}")
    if -1 in new:
        known = -math.prod(new)
        if known == 0 or total % known:
            raise ValueError(f"Reshape: {old} has {total} elements, which {new} does not divide")
        new = tuple([total // known if size == -1 else size for size in new])
    if math.prod(new) != total:
        raise ValueError(f"Reshape: {old} has {total} elements, {new} has {math.prod(new)}")
    return new


def _as_shape(name: str, shape: Any, free: bool = False) -> Shape:
    sizes = as_integers(name, "a shape", shape)
    if min(sizes, default=0) < (-1 if free else 0):
        raise ValueError(f"{name}: a size is not negative, got {sizes}")
    return sizes


def transpose(a: Any, axes: Any = None) -> Any:
    """`a` with two axes swapped, as a view.

    Parameters
    ----------
    a : Tensor
        At least two axes, if none are named.
    axes : pair of int, optional
        The axes to swap, by default the last two.

    Raises
    ------
    ValueError
        If there are not two axes, or one is out of range.
    TypeError
        If an axis is no integer.

    See Also
    --------
    permute : any order of the axes.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.transpose(ndl.Tensor([[1.0, 2.0, 3.0]])).shape
    (3, 1)
    """
    a = as_value("Transpose", a)
    ndim = len(shape_of(a))
    if axes is None:
        if ndim < 2:
            raise ValueError(f"Transpose: two axes are needed, got shape {shape_of(a)}")
        return apply(Transpose(), a)
    given = as_integers("Transpose", "a pair of axes", axes)
    if len(given) != 2:
        raise ValueError(f"Transpose: a pair of axes is swapped, got {given}; permute takes any order")
    first, second = (normalize_axis("Transpose", axis, ndim) for axis in given)
    return apply(Transpose((first, second)), a)


def permute(a: Any, axes: Sequence[int]) -> Any:
    """`a` with its axes in another order, as a view.

    Parameters
    ----------
    a : Tensor
        Any shape.
    axes : sequence of int
        Axis i of the result is axis ``axes[i]`` of `a`.

    Raises
    ------
    ValueError
        If `axes` does not name every axis once.
    TypeError
        If an axis is no integer.

    Examples
    --------
    >>> import numpy as np, needle as ndl
    >>> ndl.permute(ndl.Tensor(np.zeros((2, 3, 4))), (2, 0, 1)).shape
    (4, 2, 3)
    """
    a = as_value("Permute", a)
    given = as_integers("Permute", "an order of axes", axes)
    order = normalize_axes("Permute", given, len(shape_of(a)))
    if len(order) != len(shape_of(a)):
        raise ValueError(f"Permute: {given} does not name every axis of shape {shape_of(a)}")
    return apply(Permute(order), a)


def flip(a: Any, axes: Axes = None) -> Any:
    """`a` reversed along `axes` (an integer, several, or all by default), which must be in range and distinct.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.flip(ndl.Tensor([[1.0, 2.0], [3.0, 4.0]]), 0)
    needle.Tensor([[3. 4.]
     [1. 2.]])
    """
    a = as_value("Flip", a)
    return apply(Flip(normalize_axes("Flip", axes, len(shape_of(a)))), a)


def squeeze(a: Any, axes: Axes = None) -> Any:
    """`a` without the given axes of size 1 (without all of them by default).

    Raises
    ------
    ValueError
        If an axis has another size, is out of range or named twice.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.squeeze(ndl.Tensor([[[1.0], [2.0]]]), 0).shape
    (2, 1)
    """
    a = as_value("squeeze", a)
    shape = shape_of(a)
    drop = (
        normalize_axes("squeeze", axes, len(shape)) if axes is not None else [i for i, n in enumerate(shape) if n == 1]
    )
    for i in drop:
        if shape[i] != 1:
            raise ValueError(f"squeeze: axis {i} of shape {shape} has size {shape[i]}, not 1")
    return reshape(a, tuple([n for i, n in enumerate(shape) if i not in drop]))


def expand_dims(a: Any, axes: int | Sequence[int]) -> Any:
    """`a` with new axes of size 1 at the positions `axes` of the result.

    Raises
    ------
    ValueError
        If a position is out of range for the result, or named twice.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.expand_dims(ndl.Tensor([1.0, 2.0]), (0, -1)).shape
    (1, 2, 1)
    """
    a = as_value("expand_dims", a)
    shape, given = list(shape_of(a)), as_integers("expand_dims", "a set of axes", axes)
    for i in sorted(normalize_axes("expand_dims", given, len(shape) + len(given))):
        shape.insert(i, 1)
    return reshape(a, tuple(shape))


def concatenate(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Tensors joined along an axis.

    Parameters
    ----------
    arrays : sequence of Tensor
        Of equal sizes along all other axes. Unequal dtypes promote as in NumPy.
    axis : int
        An axis that they have.

    Raises
    ------
    ValueError
        If there are none, other sizes differ, or they live on different devices.
    TypeError
        If one holds no numbers.

    See Also
    --------
    stack : along a new axis.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.concatenate([ndl.Tensor([1.0]), ndl.Tensor([2.0, 3.0])])
    needle.Tensor([1. 2. 3.])
    """
    values = as_values("Concatenate", arrays)
    first = shape_of(values[0])
    axis = normalize_axis("Concatenate", axis, len(first))
    for value in values[1:]:
        shape = shape_of(value)
        if len(shape) != len(first) or any(n != m for i, (n, m) in enumerate(zip(shape, first)) if i != axis):
            raise ValueError(f"Concatenate: shapes {first} and {shape} differ elsewhere than along axis {axis}")
    return apply(Concatenate(axis), *values)
