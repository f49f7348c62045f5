"""Indexing ``x[...]`` and its transpose, which scatters."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import backend
from ..autograd import Tensor, TensorOp
from ..backend import Array, Shape, array_module
from .common import apply, as_value, shape_of


class GetItem(TensorOp):
    """The elements at `index`"""

    reads = ()

    def __init__(self, index: Any):
        self.index = index

    def __call__(self, a: Any) -> Any:
        return getitem(a, self.index) if type(self) is GetItem else apply(self, a)

    def compute(self, a: Array) -> Array:
        return a[self.index]

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return apply(ScatterAdd(node.inputs[0].shape, self.index), out_grad)


class ScatterAdd(TensorOp):
    """Zeros of a shape with a added at `index`; what is indexed twice is added twice"""

    reads = ()

    def __init__(self, shape: Shape, index: tuple):
        self.shape = shape
        self.index = index

    def compute(self, a: Array) -> Array:
        out = array_module(a).zeros(self.shape, dtype=a.dtype)
        if any(backend.is_array(i) and i.dtype.kind != "b" for i in self.index):
            backend.scatter_add(out, self.index, a)
        else:  # slices, integers and masks name no element twice
            out[self.index] = a
        return out

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return apply(GetItem(self.index), out_grad)


def getitem(a: Any, index: Any) -> Any:
    """``a[index]`` with NumPy's rules.

    Parameters
    ----------
    a : Tensor
        Any shape.
    index : index or tuple of them
        Integers, slices, ``...``, ``None``; boolean and integer arrays, lists or tensors. What is indexed several
        times gets the sum of the gradients.

    Returns
    -------
    Tensor
        A view of `a` where the index holds no arrays.

    Raises
    ------
    IndexError
        If an index is out of range, a mask has another shape than its axes, index arrays do not broadcast together,
        or there are more indices than axes.
    TypeError
        If an index is none of these.

    Examples
    --------
    >>> import needle as ndl
    >>> x = ndl.Tensor([1.0, 2.0, 3.0])
    >>> x[[0, 0, 2]].sum().backward()
    >>> x.grad
    needle.Tensor([2. 0. 1.])
    """
    a = as_value("GetItem", a)
    parts = tuple([_index_part(part) for part in (index if isinstance(index, tuple) else (index,))])
    _check_bounds(parts, shape_of(a))
    _check_arrays(parts)
    device = a.device if isinstance(a, Tensor) else backend.device_of(a)
    return apply(GetItem(tuple([device.array(p) if backend.is_array(p) else p for p in parts])), a)


def _index_part(part: Any) -> Any:
    if isinstance(part, Tensor):
        part = part.realize_cached_data()
    if part is None or part is Ellipsis:
        return part
    if isinstance(part, slice):
        try:
            part.indices(0)
        except (TypeError, ValueError) as error:
            raise type(error)(f"GetItem: {error}: {part}") from None
        return part
    if isinstance(part, (list, tuple, bool, np.bool_)):
        try:
            part = np.asarray(part)
        except ValueError:
            raise TypeError(f"GetItem: {part} is no array of integers or booleans") from None
        part = part.astype(np.intp) if part.size == 0 else part
    if backend.is_array(part) and (part.ndim or backend.array_module(part) is not np):  # reading a number would wait
        if part.dtype.kind not in "iub":
            raise TypeError(f"GetItem: an index array holds integers or booleans, got {part.dtype}")
        return part
    if isinstance(part, np.ndarray):
        return part if part.dtype.kind == "b" else int(part)
    if isinstance(part, (int, np.integer)):
        return int(part)
    raise TypeError(f"GetItem: {type(part).__name__} is no index: use integers, slices, None, ... or arrays of them")


def _is_mask(part: Any) -> bool:
    return backend.is_array(part) and part.dtype.kind == "b"


def _check_bounds(parts: tuple, shape: Shape) -> None:
    """Raise before computing: on a GPU an index out of bounds would wrap silently."""
    used = sum(p.ndim if _is_mask(p) else 1 for p in parts if p is not None and p is not Ellipsis)
    if used > len(shape):
        raise IndexError(f"GetItem: {used} {'index' if used == 1 else 'indices'} for a tensor of shape {shape}")
    if sum(p is Ellipsis for p in parts) > 1:
        raise IndexError("GetItem: '...' can stand only once")
    axis = 0
    for part in parts:
        if part is None:
            continue
        if part is Ellipsis:
            axis += len(shape) - used
            continue
        if _is_mask(part):
            if part.shape != shape[axis : axis + part.ndim]:
                raise IndexError(
                    f"GetItem: a mask of shape {part.shape} on axes of shape {shape[axis : axis + part.ndim]}"
                )
            axis += part.ndim
            continue
        size = shape[axis]
        if isinstance(part, int) and not -size <= part < size:
            raise IndexError(f"GetItem: index {part} is out of range for axis {axis} of size {size}")
        if backend.is_array(part) and part.size:
            with backend.scope(part):
                low, high = int(part.min()), int(part.max())
            if low < -size or high >= size:
                raise IndexError(f"GetItem: indices {low} to {high} are out of range for axis {axis} of size {size}")
        axis += 1


def _check_arrays(parts: tuple) -> None:
    """Raise if the index arrays do not broadcast together, where a mask counts as the integers that it stands for."""
    arrays = [p for p in parts if backend.is_array(p)]
    if len(arrays) > 1:
        shapes = [(_count(p),) if _is_mask(p) else p.shape for p in arrays]
        try:
            np.broadcast_shapes(*shapes)
        except ValueError:
            text = ", ".join(str(shape) for shape in shapes)
            raise IndexError(f"GetItem: index arrays of shapes {text} do not broadcast together") from None


def _count(mask: Array) -> int:
    with backend.scope(mask):
        return int(mask.sum())
