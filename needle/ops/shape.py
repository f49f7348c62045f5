"""Ops that move elements without computing: broadcasting and its dual, reshaping, reordering, joining.

`BroadcastTo` and `SumTo` are each other's gradient, one node each. They are the only two ops that know of broadcasting:
elementwise functions put `BroadcastTo` nodes in front of operands of unequal shapes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autograd import TensorOp
from ..backend import Array, Shape, array_module
from .common import Axes, as_value, normalize_axes, normalize_axis, shape_of


class BroadcastTo(TensorOp):
    """a repeated to a larger shape, as a view"""

    reads = ()

    def __init__(self, shape: Shape):
        self.shape = shape

    def compute(self, a: Array) -> Array:
        return array_module(a).broadcast_to(a, self.shape)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return sum_to(out_grad, node.inputs[0].shape)


class SumTo(TensorOp):
    """a summed over all axes that a broadcast from `shape` would have repeated, in one reduction"""

    reads = ()

    def __init__(self, shape: Shape):
        self.shape = shape

    def compute(self, a: Array) -> Array:
        new = a.ndim - len(self.shape)
        repeated = tuple(i + new for i, size in enumerate(self.shape) if size == 1 and a.shape[i + new] != 1)
        return a.sum(axis=tuple(range(new)) + repeated, dtype=a.dtype).reshape(self.shape)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return broadcast_to(out_grad, node.inputs[0].shape)


class Reshape(TensorOp):
    """a with the same elements in another shape"""

    reads = ()

    def __init__(self, shape: Shape):
        self.shape = shape

    def compute(self, a: Array) -> Array:
        return a.reshape(self.shape)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return reshape(out_grad, node.inputs[0].shape)


class Transpose(TensorOp):
    """a with two axes swapped, by default the last two"""

    reads = ()

    def __init__(self, axes: Any = None):
        self.axes = axes

    def compute(self, a: Array) -> Array:
        return a.swapaxes(*(self.axes or (-2, -1)))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return Transpose(self.axes)(out_grad)


class Permute(TensorOp):
    """a with its axes in another order"""

    reads = ()

    def __init__(self, axes: tuple[int, ...]):
        self.axes = axes

    def compute(self, a: Array) -> Array:
        return a.transpose(self.axes)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return Permute(tuple(int(i) for i in np.argsort(self.axes)))(out_grad)


class Flip(TensorOp):
    """a reversed along axes"""

    reads = ()

    def __init__(self, axes: tuple[int, ...]):
        self.axes = axes

    def compute(self, a: Array) -> Array:
        return array_module(a).flip(a, self.axes)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return Flip(self.axes)(out_grad)


class Concatenate(TensorOp):
    """Arrays joined along an axis that they have"""

    reads = ()

    def __init__(self, axis: int):
        self.axis = axis

    def compute(self, *arrays: Array) -> Array:
        return array_module(arrays[0]).concatenate(arrays, axis=self.axis)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        grads, start = [], 0
        for a in node.inputs:
            stop = start + a.shape[self.axis]
            grads.append(out_grad[(slice(None),) * self.axis + (slice(start, stop),)])
            start = stop
        return tuple(grads)


# ------------------------------------------------------------------------------------------------------------ functions


def broadcast_to(a: Any, shape: Sequence[int]) -> Any:
    """`a` repeated to `shape`: sizes of 1 grow, new axes come in front. `a` itself if it has that shape.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.broadcast_to(ndl.Tensor([1.0, 2.0]), (2, 2))
    needle.Tensor([[1. 2.]
     [1. 2.]])
    """
    a, shape = as_value("BroadcastTo", a), _as_shape("BroadcastTo", shape)
    old = shape_of(a)
    if old == shape:
        return a
    new = len(shape) - len(old)
    if new < 0 or any(size not in (1, want) for size, want in zip(old, shape[new:])):
        raise ValueError(
            f"BroadcastTo: shape {old} does not broadcast to {shape}: sizes must be equal or 1, from the last axis"
        )
    return BroadcastTo(shape)(a)


def sum_to(a: Any, shape: Sequence[int]) -> Any:
    """`a` summed to `shape`, over every axis that broadcasting `shape` to a's would repeat. `a` itself if it has it."""
    a, shape = as_value("SumTo", a), _as_shape("SumTo", shape)
    old = shape_of(a)
    if old == shape:
        return a
    new = len(old) - len(shape)
    if new < 0 or any(want not in (1, size) for size, want in zip(old[new:], shape)):
        raise ValueError(f"SumTo: shape {old} is no broadcast of {shape}")
    return SumTo(shape)(a)


def reshape(a: Any, *shape: Any) -> Any:
    """`a` in another shape of as many elements; one size may be −1 and is worked out.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.reshape(ndl.Tensor([1.0, 2.0, 3.0, 4.0]), (2, -1)).shape
    (2, 2)
    """
    a = as_value("Reshape", a)
    sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape
    new, old = _as_shape("Reshape", sizes, free=True), shape_of(a)
    total = math.prod(old)
    if new.count(-1) == 1:
        known = -math.prod(new)
        if known == 0 or total % known:
            raise ValueError(f"Reshape: {old} has {total} elements, which {new} does not divide")
        new = tuple([total // known if size == -1 else size for size in new])
    if math.prod(new) != total or min(new, default=0) < 0:
        raise ValueError(f"Reshape: {old} has {total} elements, {new} has {math.prod(new)}")
    return a if new == old else Reshape(new)(a)


def _as_shape(name: str, shape: Any, free: bool = False) -> Shape:
    sizes = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    for size in sizes:
        if not isinstance(size, (int, np.integer)) or size < (-1 if free else 0):
            raise ValueError(f"{name}: a shape is made of non-negative integers, got {sizes}")
    return tuple([int(size) for size in sizes])


def transpose(a: Any, axes: Any = None) -> Any:
    """`a` with two axes swapped: `axes` is a pair; by default the last two are.

    See Also
    --------
    permute : any order of the axes.
    """
    a = as_value("Transpose", a)
    ndim = len(shape_of(a))
    if axes is None:
        if ndim < 2:
            raise ValueError(f"Transpose: two axes are needed, got shape {shape_of(a)}")
        return Transpose()(a)
    pair = normalize_axes("Transpose", axes, ndim) if len(tuple(axes)) == 2 and axes[0] != axes[1] else tuple(axes)
    if len(pair) != 2:
        raise ValueError(f"Transpose: a pair of axes is swapped, got {tuple(axes)}; permute takes any order")
    return Transpose(pair)(a)


def permute(a: Any, axes: Sequence[int]) -> Any:
    """`a` with its axes in the order `axes`: axis i of the result is axis ``axes[i]`` of `a`."""
    a = as_value("Permute", a)
    order = normalize_axes("Permute", axes, len(shape_of(a)))
    if len(order) != len(shape_of(a)):
        raise ValueError(f"Permute: {tuple(axes)} does not name every axis of shape {shape_of(a)}")
    return Permute(order)(a)


def flip(a: Any, axes: Axes = None) -> Any:
    """`a` reversed along `axes` (an integer, several, or all by default)."""
    a = as_value("Flip", a)
    return Flip(normalize_axes("Flip", axes, len(shape_of(a))))(a)


def squeeze(a: Any, axes: Axes = None) -> Any:
    """`a` without the given axes of size 1 (without all of them by default)."""
    a = as_value("squeeze", a)
    shape = shape_of(a)
    drop = (
        normalize_axes("squeeze", axes, len(shape)) if axes is not None else [i for i, n in enumerate(shape) if n == 1]
    )
    for i in drop:
        if shape[i] != 1:
            raise ValueError(f"squeeze: axis {i} of shape {shape} has size {shape[i]}, not 1")
    return reshape(a, tuple([n for i, n in enumerate(shape) if i not in drop]))


def expand_dims(a: Any, axes: Axes) -> Any:
    """`a` with new axes of size 1 at the positions `axes` of the result."""
    a = as_value("expand_dims", a)
    shape = list(shape_of(a))
    count = 1 if isinstance(axes, (int, np.integer)) else len(tuple(axes or ()))
    for i in sorted(normalize_axes("expand_dims", axes, len(shape) + count)):
        shape.insert(i, 1)
    return reshape(a, tuple(shape))


def concatenate(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Tensors joined along `axis`; their other sizes are equal.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.concatenate([ndl.Tensor([1.0]), ndl.Tensor([2.0, 3.0])])
    needle.Tensor([1. 2. 3.])
    """
    values = [as_value("Concatenate", a) for a in arrays]
    if not values:
        raise ValueError("Concatenate: at least one tensor is needed")
    first = shape_of(values[0])
    axis = normalize_axis("Concatenate", axis, len(first))
    for value in values[1:]:
        shape = shape_of(value)
        if len(shape) != len(first) or any(n != m for i, (n, m) in enumerate(zip(shape, first)) if i != axis):
            raise ValueError(f"Concatenate: shapes {first} and {shape} differ elsewhere than along axis {axis}")
    return Concatenate(axis)(*values)
