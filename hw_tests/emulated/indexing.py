"""Indexing as cupy does it: indices out of bounds wrap, and an index that stands twice leaves either value."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import memory
from .counts import record

_order = np.random.default_rng(0)  # of its own: NumPy's global generator belongs to the tests


def wrap_index(index: Any, shape: tuple[int, ...], reading: bool) -> tuple[tuple, bool]:
    """The index in NumPy's terms, every integer array brought into bounds, and whether it copies.

    Reading through a boolean mask makes the host wait, for the shape of the result.
    """
    parts = index if isinstance(index, tuple) else (index,)
    values = [_part(part) for part in parts]
    used = sum(v.ndim if _is_mask(v) else 1 for v in values if v is not None and v is not Ellipsis)
    axis, copies = 0, False
    for position, value in enumerate(values):
        if value is None:
            continue
        if value is Ellipsis:
            axis += len(shape) - used
        elif _is_mask(value):
            copies = True
            if reading and value.size:
                record("sync", "mask", size=1)
            axis += value.ndim
        else:
            if isinstance(value, np.ndarray):
                copies = True
                if value.size and axis < len(shape):
                    values[position] = value % shape[axis] if shape[axis] else value
            axis += 1
    return tuple(values), copies


def _is_mask(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "b"


def _part(part: Any) -> Any:
    from .array import ndarray

    if isinstance(part, ndarray):
        if part.device != memory.current_device():
            raise ValueError(f"an index on {part.device} was used while {memory.current_device()} is current")
        return part._values
    if isinstance(part, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'> as an index")
    if isinstance(part, list):
        record("upload", "index list", size=8 * len(part))
        return np.array(part)
    if part is None or part is Ellipsis or isinstance(part, (int, np.integer, slice)):
        return part
    raise IndexError(f"unsupported index {part!r}")


def assign(target: np.ndarray, index: tuple, value: Any) -> None:
    """``target[index] = value``, element by element in random order where an index array could name one twice."""
    if not any(isinstance(i, np.ndarray) and i.dtype.kind != "b" for i in index):
        if any(_is_mask(i) and i.size for i in index):  # cupy counts what is true first, whatever is assigned
            record("sync", "mask", size=1)
        target[index] = value
        return
    places = np.arange(target.size).reshape(target.shape)[index]
    values = np.broadcast_to(np.asarray(value), places.shape).reshape(-1)
    order = _order.permutation(places.size)
    target[np.unravel_index(places.reshape(-1)[order], target.shape)] = values[order]


def accumulate(function: np.ufunc, target: np.ndarray, index: tuple, value: Any) -> None:
    """``function.at`` in random order, as atomic operations come."""
    places = np.arange(target.size).reshape(target.shape)[index]
    values = np.broadcast_to(np.asarray(value), places.shape).reshape(-1)
    order = _order.permutation(places.size)
    function.at(target, np.unravel_index(places.reshape(-1)[order], target.shape), values[order])
