"""What the op families share: scalars, constants, shapes, axes and the words of their errors."""

from __future__ import annotations

import functools
import numbers
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .. import backend
from ..autograd import Tensor, TensorOp, Value
from ..backend import Array, Shape

Axes = int | Sequence[int] | None

#: ``apply(op, *operands)`` for operands that have been checked: how functions end, and gradients, which need no checks.
#: An op that is called, as in ``Transpose(axes)(a)``, checks them as its function does, if need be by asking it; only a
#: subclass, which is another op than the function's, is applied as it is.
apply = TensorOp.__call__


def as_scalar(value: Any) -> bool | int | float | None:
    """`value` as a Python number if it is one number (of Python, of NumPy, or a 0-d NumPy array), else None."""
    if type(value) in (float, int):
        return value
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    if isinstance(value, complex) or not isinstance(value, numbers.Real):
        return None
    return value if isinstance(value, (bool, int, float)) else float(value)


def as_scalar_beside(value: Any, other: Any) -> bool | int | float | None:
    """`as_scalar` of an operand: NumPy scalars and 0-d arrays count only beside a tensor.

    Where a gradient rule is run on arrays, a 0-d array is what a 0-d tensor comes as.
    """
    return as_scalar(value) if isinstance(other, Tensor) or isinstance(value, (bool, int, float)) else None


def as_number(name: str, value: Any) -> bool | int | float:
    """`value` as a Python number: `as_scalar` of it, or of the only element of an array."""
    scalar = as_scalar(value)
    if scalar is None and backend.is_array(value) and value.size == 1:
        scalar = as_scalar(value.item())
    if scalar is None:
        raise TypeError(f"{name}: a number is needed, got {type(value).__name__}")
    return scalar


def as_value(name: str, value: Any) -> Any:
    """`value` if an op can be applied to it: a tensor or an array; lists and numbers become constant tensors."""
    if isinstance(value, Tensor):
        return value
    if backend.is_array(value):
        if value.dtype.kind not in "fiub":
            raise TypeError(f"{name}: real numbers are needed, got an array of dtype {value.dtype}")
        return value
    if isinstance(value, (list, tuple, numbers.Real)):
        try:
            return Tensor(value, requires_grad=False)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None
    raise TypeError(f"{name}: a Tensor is needed, got {type(value).__name__}")


def as_values(name: str, values: Any) -> list:
    """`as_value` of each of at least one value, all of one device."""
    if not isinstance(values, (Iterable, Tensor)):
        raise TypeError(f"{name}: a sequence of tensors is needed, got {type(values).__name__}")
    values = [as_value(name, value) for value in values]
    if not values:
        raise ValueError(f"{name}: at least one tensor is needed")
    return list(on_one_device(name, *values))


def as_integers(name: str, what: str, value: Any) -> tuple[int, ...]:
    """One integer or several as a tuple of Python integers; `what` they are goes into the error."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: {what} is made of integers, got {value!r}")
    try:
        return (operator.index(value),) if isinstance(value, (int, np.integer)) else tuple(map(operator.index, value))
    except TypeError:
        raise TypeError(f"{name}: {what} is made of integers, got {value!r}") from None


def shape_of(value: Any) -> Shape:
    """The shape of a tensor or an array."""
    data = getattr(value, "cached_data", value)
    return value.shape if data is None else data.shape


def constant(fn: Callable[..., Array], *values: Any) -> Any:
    """``fn`` of the values' arrays as a constant: for functions whose derivative is zero wherever it exists.

    Tensors give a constant tensor, arrays an array.
    """
    arrays = [v.realize_cached_data() if isinstance(v, Value) else v for v in values]
    result = fn(*arrays) if type(arrays[0]) is np.ndarray else backend.compute(fn, arrays)
    like = next((v for v in values if isinstance(v, Value)), None)
    if like is None:
        return result
    return Tensor._from_array(backend.as_array(result, like.realize_cached_data()), False)


def check_devices(name: str, *values: Any) -> None:
    """Raise if the values do not all live on one device."""
    arrays = [v.realize_cached_data() if isinstance(v, Value) else v for v in values]
    if all([type(array) is np.ndarray for array in arrays]):
        return
    devices = [backend.device_of(array) for array in arrays]
    for device in devices[1:]:
        if device != devices[0]:
            raise ValueError(f"{name}: operands on {devices[0]} and {device}: move one with .to(device)")


def on_one_device(name: str, *values: Any) -> tuple:
    """The values, where a NumPy array beside a tensor on a GPU is moved there: no one has chosen a device for it.

    Raises
    ------
    ValueError
        If tensors live on different devices.
    """
    arrays = [v.realize_cached_data() if isinstance(v, Value) else v for v in values]
    if all([type(array) is np.ndarray for array in arrays]):
        return values
    devices = [backend.device_of(v.realize_cached_data()) for v in values if isinstance(v, Value)]
    if devices and devices[0] != backend.cpu():
        values = tuple([devices[0].array(v) if isinstance(v, np.ndarray) else v for v in values])
    check_devices(name, *values)
    return values


_broadcast_shapes = functools.lru_cache(maxsize=1024)(np.broadcast_shapes)


def broadcast_shape(name: str, *shapes: Shape) -> Shape:
    """The shape that all of `shapes` broadcast to."""
    if len(set(shapes)) == 1:
        return shapes[0]
    try:
        return _broadcast_shapes(*shapes)
    except ValueError:
        text = " and ".join(str(shape) for shape in shapes)
        raise ValueError(
            f"{name}: shapes {text} do not broadcast: sizes must be equal or 1, from the last axis"
        ) from None


def normalize_axes(name: str, axes: Axes, ndim: int) -> tuple[int, ...]:
    """`axes` as a tuple of distinct integers of [0, ndim); None means all."""
    if axes is None:
        return tuple(range(ndim))
    given = as_integers(name, "a set of axes", axes)
    result = []
    for axis in given:
        if not -ndim <= axis < ndim:
            raise ValueError(f"{name}: axis {axis} is out of range for a tensor with {ndim} axes")
        result.append(axis % ndim)
    if len(set(result)) != len(result):
        raise ValueError(f"{name}: axes {given} name an axis twice")
    return tuple(result)


def normalize_axis(name: str, axis: int, ndim: int) -> int:
    """One axis as an integer of [0, ndim)."""
    if not isinstance(axis, (int, np.integer)):
        raise TypeError(f"{name}: one axis is needed, an integer, got {axis!r}")
    return normalize_axes(name, (axis,), ndim)[0]
