"""What the op families share: scalars, constants, shapes, axes and the words of their errors."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import backend
from ..autograd import Tensor, Value
from ..backend import Array, Shape

Axes = int | Sequence[int] | None


def as_scalar(value: Any) -> bool | int | float | None:
    """`value` as a Python number if it is one number (of Python, of NumPy, or a 0-d NumPy array), else None."""
    if type(value) in (float, int):
        return value
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    if isinstance(value, complex) or not isinstance(value, numbers.Real):
        return None
    return value if isinstance(value, (bool, int, float)) else float(value)


def as_value(name: str, value: Any) -> Any:
    """`value` if an op can be applied to it: a tensor or an array; lists and numbers become constant tensors."""
    if isinstance(value, Value) or backend.is_array(value):
        return value
    if isinstance(value, (list, tuple, numbers.Real)):
        return Tensor(value, requires_grad=False)
    raise TypeError(f"{name}: a Tensor is needed, got {type(value).__name__}")


def shape_of(value: Any) -> Shape:
    """The shape of a tensor or an array."""
    data = getattr(value, "cached_data", value)
    return value.shape if data is None else data.shape


def constant(fn: Callable[..., Array], *values: Any) -> Any:
    """``fn`` of the values' arrays as a constant: for functions whose derivative is zero wherever it exists.

    Tensors give a constant tensor, arrays an array.
    """
    result = fn(*[v.realize_cached_data() if isinstance(v, Value) else v for v in values])
    like = next((v for v in values if isinstance(v, Value)), None)
    if like is None:
        return result
    return Tensor._from_array(backend.as_array(result, like.realize_cached_data()), False)


def check_devices(name: str, *values: Any) -> None:
    """Raise if the values do not all live on one device."""
    devices = [backend.device_of(v.realize_cached_data() if isinstance(v, Value) else v) for v in values]
    for device in devices[1:]:
        if device != devices[0]:
            raise ValueError(f"{name}: operands on {devices[0]} and {device}: move one with .to(device)")


def broadcast_shape(name: str, *shapes: Shape) -> Shape:
    """The shape that all of `shapes` broadcast to."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        text = " and ".join(str(shape) for shape in shapes)
        raise ValueError(
            f"{name}: shapes {text} do not broadcast: sizes must be equal or 1, from the last axis"
        ) from None


def normalize_axes(name: str, axes: Axes, ndim: int) -> tuple[int, ...]:
    """`axes` as a tuple of distinct integers of [0, ndim); None means all."""
    if axes is None:
        return tuple(range(ndim))
    given = (axes,) if isinstance(axes, (int, np.integer)) else tuple(axes)
    result = []
    for axis in given:
        if not isinstance(axis, (int, np.integer)):
            raise TypeError(f"{name}: an axis is an integer, got {axis!r}")
        if not -ndim <= axis < ndim:
            raise ValueError(f"{name}: axis {axis} is out of range for a tensor with {ndim} axes")
        result.append(int(axis) % ndim)
    if len(set(result)) != len(result):
        raise ValueError(f"{name}: axes {given} name an axis twice")
    return tuple(result)


def normalize_axis(name: str, axis: int, ndim: int) -> int:
    """One axis as an integer of [0, ndim)."""
    return normalize_axes(name, (axis,), ndim)[0]
