"""The course's name for the array layer. Arrays are NumPy's here (CuPy's on a GPU), so there is little to it.

Examples
--------
>>> from needle import backend_ndarray as nd
>>> nd.array([1, 2], dtype="float32", device=nd.cpu())
array([1., 2.], dtype=float32)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .backend import Array, Device, all_devices, as_device, cpu, cuda, default_device

__all__ = ["NDArray", "all_devices", "array", "cpu", "cuda", "default_device", "empty", "full"]

NDArray = np.ndarray


def array(data: Any, dtype: Any = "float32", device: Device | None = None) -> Array:
    """A new array on `device` with a copy of `data`."""
    return as_device("array", device).array(data, dtype=dtype)


def full(shape: tuple[int, ...], fill_value: float, dtype: Any = "float32", device: Device | None = None) -> Array:
    """A new array on `device` filled with `fill_value`."""
    return as_device("full", device).full(shape, fill_value, dtype=dtype)


def empty(shape: tuple[int, ...], dtype: Any = "float32", device: Device | None = None) -> Array:
    """A new array on `device` with arbitrary values."""
    return as_device("empty", device).empty(shape, dtype=dtype)
