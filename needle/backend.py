"""Devices, and the array module that an array belongs to.

An array lives on the CPU (a ``numpy.ndarray``) or on a GPU (a ``cupy.ndarray``). Ops never ask which: they take
their array module from their arrays (`array_module`) and compute. Only this file and ``needle.kernels`` may import
cupy, and only when a CUDA device is asked for.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

Array = Any  # numpy.ndarray or cupy.ndarray
Shape = tuple[int, ...]

_NEP50 = np.lib.NumpyVersion(np.__version__) >= "2.0.0"


class Device:
    """A place where arrays live. Get one from `cpu` or `cuda`; two of the same name and index are equal."""

    __slots__ = ("index", "name")

    def __init__(self, name: str, index: int = 0):
        self.name = name
        self.index = index

    def __repr__(self) -> str:
        return f"{self.name}({self.index or ''})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self.name, self.index) == (other.name, other.index)

    def __hash__(self) -> int:
        return hash((self.name, self.index))

    def enabled(self) -> bool:
        """Whether arrays can be made here: always on the CPU; on CUDA, with cupy, a driver and this GPU."""
        return not self._missing()

    def _missing(self) -> str:
        """What keeps this device from being used, and the remedy; empty if nothing does."""
        if self.name == "cpu":
            return ""
        if importlib.util.find_spec("cupy") is None:
            return "cupy is not installed: pip install 'needle[cuda13]' (or 'needle[cuda12]' for a CUDA 12 driver)"
        import cupy

        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            return f"cupy is installed, but the NVIDIA driver gives no GPU ({error}): install or update the driver"
        if self.index >= count:
            return f"this machine has {count} GPU(s), numbered from 0"
        return ""

    @property
    def xp(self) -> ModuleType:
        """The array module: ``numpy`` or ``cupy``.

        Raises
        ------
        RuntimeError
            If the device cannot be used; the text says what is missing.
        """
        if self.name == "cpu":
            return np
        missing = self._missing()
        if missing:
            raise RuntimeError(f"{self!r} cannot be used: {missing}")
        import cupy

        return cupy

    def array(self, data: Any, dtype: Any = None) -> Array:
        """A new array here with a copy of `data` (an array of any device, nested lists or a number)."""
        xp = self.xp
        if xp is np:
            return np.array(to_numpy(data), dtype=dtype)
        with xp.cuda.Device(self.index):
            return xp.array(data, dtype=dtype)

    def full(self, shape: Sequence[int], value: Any, dtype: Any = "float32") -> Array:
        """A new array filled with `value`."""
        xp = self.xp
        if xp is np:
            return np.full(shape, value, dtype=dtype)
        with xp.cuda.Device(self.index):
            return xp.full(shape, value, dtype=dtype)

    def zeros(self, shape: Sequence[int], dtype: Any = "float32") -> Array:
        """A new array of zeros."""
        return self.full(shape, 0, dtype)

    def ones(self, shape: Sequence[int], dtype: Any = "float32") -> Array:
        """A new array of ones."""
        return self.full(shape, 1, dtype)

    def rand(self, *shape: int, dtype: Any = "float32") -> Array:
        """Uniform numbers of [0, 1) from NumPy's global generator, moved here."""
        return self.array(np.random.rand(*shape), dtype=dtype)

    def randn(self, *shape: int, dtype: Any = "float32") -> Array:
        """Standard normal numbers from NumPy's global generator, moved here."""
        return self.array(np.random.randn(*shape), dtype=dtype)

    def one_hot(self, n: int, i: Any, dtype: Any = "float32") -> Array:
        """Rows of the n×n identity picked by the integers `i` (any shape); the result's shape is ``i.shape + (n,)``."""
        return self.array(np.eye(n, dtype=dtype)[to_numpy(i).astype(np.intp)])


_CPU = Device("cpu")


def cpu() -> Device:
    """The CPU.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.cpu(), ndl.cpu().enabled()
    (cpu(), True)
    """
    return _CPU


def cuda(index: int = 0) -> Device:
    """GPU number `index`. Asking for it imports nothing; using it needs cupy and a driver."""
    return Device("cuda", index)


def default_device() -> Device:
    """Where tensors are made when no device is named: the CPU."""
    return _CPU


def all_devices() -> list[Device]:
    """The devices that needle knows by name, usable or not (`Device.enabled` tells)."""
    return [cpu(), cuda()]


def array_module(array: Array) -> ModuleType:
    """The module whose functions work on `array`: ``numpy`` or ``cupy``."""
    if isinstance(array, (np.ndarray, np.generic)):
        return np
    return sys.modules[type(array).__module__.partition(".")[0]]


def is_array(value: object) -> bool:
    """Whether `value` is an array that ops compute on (NumPy scalars count: they are what 0-d results come as)."""
    if isinstance(value, (np.ndarray, np.generic)):
        return True
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(value, cupy.ndarray)


def as_array(value: Array, like: Array) -> Array:
    """`value` as an array of the module of `like`: reductions and 0-d arithmetic in NumPy give scalars."""
    return array_module(like).asarray(value)


def device_of(array: Array) -> Device:
    """The device that `array` lives on."""
    return _CPU if isinstance(array, (np.ndarray, np.generic)) else cuda(array.device.id)


def to_numpy(array: Any) -> np.ndarray:
    """`array` as a NumPy array: itself if it is one already, a copy if it lives on a GPU."""
    if isinstance(array, np.ndarray):
        return array
    return array.get() if is_array(array) and not isinstance(array, np.generic) else np.asarray(array)


def weak(scalar: Any, array: Array) -> Any:
    """`scalar` in the form that never widens a float `array`: NumPy 1.26 would promote a 0-d float32 to float64."""
    if _NEP50 or array.ndim or array.dtype.kind != "f":
        return scalar
    return array.dtype.type(scalar)


def scatter_add(target: Array, index: Any, values: Array) -> None:
    """``target[index] += values`` in place, where an index that occurs twice is added twice."""
    xp = array_module(target)
    if xp is np:
        np.add.at(target, index, values)
    else:
        xp.add.at(target, index, values)
