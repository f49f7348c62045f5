"""Devices, and the array module that an array belongs to.

An array lives on the CPU (a ``numpy.ndarray``) or on a GPU (a ``cupy.ndarray``). Ops never ask which: they take
their array module from their arrays (`array_module`) and compute. Only this file and ``needle.kernels`` may import
cupy, and only when a CUDA device is asked for.

Which array types there are stands in one table, by type (`register_array_type`): NumPy's is in it from the start,
CuPy's as soon as a GPU is used or one of its arrays turns up, and another accelerator's could be added.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

Array = Any  # numpy.ndarray or cupy.ndarray
Shape = tuple[int, ...]

_NEP50 = np.lib.NumpyVersion(np.__version__) >= "2.0.0"


class Device:
    """A place where arrays live. Get one from `cpu` or `cuda`; two of the same name and index are equal."""

    __slots__ = ("index", "name")

    dlpack_type = 1  #: the device type in DLPack's list: 1 is the CPU

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
        return ""

    @property
    def xp(self) -> ModuleType:
        """The array module: ``numpy`` or ``cupy``.

        Raises
        ------
        RuntimeError
            If the device cannot be used; the text says what is missing.
        """
        return np

    def current(self) -> contextlib.AbstractContextManager:
        """A context in which new arrays are made on this device: with several GPUs, one is current.

        On leaving it, `OutOfMemory` is raised if a GPU's memory did not suffice.
        """
        return contextlib.nullcontext()

    def array(self, data: Any, dtype: Any = None) -> Array:
        """A new array here with a copy of `data` (an array of any device, nested lists or a number)."""
        return np.array(to_numpy(data), dtype=dtype)

    def full(self, shape: Sequence[int], value: Any, dtype: Any = "float32") -> Array:
        """A new array filled with `value`."""
        with self.current():
            return self.xp.full(shape, value, dtype=dtype)

    def empty(self, shape: Sequence[int], dtype: Any = "float32") -> Array:
        """A new array with arbitrary values."""
        with self.current():
            return self.xp.empty(shape, dtype=dtype)

    def zeros(self, shape: Sequence[int], dtype: Any = "float32") -> Array:
        """A new array of zeros."""
        with self.current():
            return self.xp.zeros(shape, dtype=dtype)

    def ones(self, shape: Sequence[int], dtype: Any = "float32") -> Array:
        """A new array of ones."""
        with self.current():
            return self.xp.ones(shape, dtype=dtype)

    def rand(self, *shape: int, dtype: Any = "float32") -> Array:
        """Uniform numbers of [0, 1) from NumPy's global generator, moved here."""
        return self.array(np.random.rand(*shape), dtype=dtype)

    def randn(self, *shape: int, dtype: Any = "float32") -> Array:
        """Standard normal numbers from NumPy's global generator, moved here."""
        return self.array(np.random.randn(*shape), dtype=dtype)

    def one_hot(self, n: int, i: Any, dtype: Any = "float32") -> Array:
        """Rows of the n×n identity picked by the integers `i` (any shape); the result's shape is ``i.shape + (n,)``."""
        return self.array(np.eye(n, dtype=dtype)[to_numpy(i).astype(np.intp)])


class CudaDevice(Device):
    """A GPU, driven through cupy."""

    __slots__ = ()

    dlpack_type = 2

    def _missing(self) -> str:
        if importlib.util.find_spec("cupy") is None:
            return "cupy is not installed: pip install 'needle[cuda13]' (or 'needle[cuda12]' for a CUDA 12 driver)"
        import cupy

        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            return (
                f"cupy is installed, but the NVIDIA driver gives no GPU ({error}): install the driver, or update it; "
                "nvidia-smi shows whether it works"
            )
        if self.index >= count:
            return f"the driver knows {count} GPU(s), numbered from 0"
        return ""

    @property
    def xp(self) -> ModuleType:
        if self not in _usable:
            missing = self._missing()
            if missing:
                raise RuntimeError(f"{self!r} cannot be used: {missing}")
            _usable.add(self)
        return self._load()

    def _load(self) -> ModuleType:
        return _load_cupy()

    def current(self) -> contextlib.AbstractContextManager:
        return _Scope(self)

    def array(self, data: Any, dtype: Any = None) -> Array:
        with self.current():
            if not is_array(data) or array_module(data) is not self.xp:
                data = to_numpy(data)
                if data.dtype.kind not in "fiubc":
                    raise TypeError(f"a GPU computes on numbers, not on {data.dtype}")
            return self.xp.array(data, dtype=dtype, order="C")  # else cupy copies no view with gaps from another GPU


_CPU = Device("cpu")
_usable: set[Device] = set()  # GPUs that were found to be there


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
    """GPU number `index`. Asking for it imports nothing; using it needs cupy and a driver.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.cuda(), ndl.cuda(1)
    (cuda(), cuda(1))
    """
    if isinstance(index, bool) or not isinstance(index, int) or index < 0:
        raise ValueError(f"cuda: a GPU's number is 0 or a larger integer, got {index!r}")
    return CudaDevice("cuda", index)


_default = _CPU


def as_device(name: str, device: Any) -> Device:
    """`device`, or the default one if it is None; anything else is a TypeError in the terms of `name`."""
    if device is None:
        return _default
    if not isinstance(device, Device):
        raise TypeError(f"{name}: a device is ndl.cpu() or ndl.cuda(), got {device!r}")
    return device


def as_dtype(name: str, dtype: Any, kinds: str = "fiub") -> np.dtype:
    """`dtype` as NumPy's, if it is of one of the `kinds` that tensors have; else a TypeError in the terms of `name`."""
    wanted = "a floating dtype, such as 'float32'," if kinds == "f" else "a dtype of real numbers, such as 'float32',"
    try:
        found = np.dtype(dtype)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: {wanted} is needed, got {dtype!r}") from None
    if found.kind not in kinds:
        raise TypeError(f"{name}: {wanted} is needed, got {found}")
    return found


def default_device() -> Device:
    """Where tensors are made of NumPy arrays, lists and numbers when no device is named: at first, the CPU."""
    return _default


def set_default_device(device: Device) -> Device:
    """Make `device` the one where tensors are made when none is named; gives the one it was before.

    Raises
    ------
    TypeError
        If `device` is none.
    RuntimeError
        If it cannot be used; the text says what is missing.

    Examples
    --------
    >>> import needle as ndl
    >>> before = ndl.backend.set_default_device(ndl.cpu())
    >>> ndl.default_device()
    cpu()
    >>> _ = ndl.backend.set_default_device(before)
    """
    global _default
    if not isinstance(device, Device):
        raise TypeError(f"set_default_device: a device is ndl.cpu() or ndl.cuda(), got {device!r}")
    device.xp  # noqa: B018 (raises if the device cannot be used)
    before, _default = _default, device
    return before


def all_devices() -> list[Device]:
    """The devices that needle knows by name, usable or not (`Device.enabled` tells)."""
    return [cpu(), cuda()]


# ------------------------------------------------------------------------------------------------- arrays of any device


class _ArrayType(NamedTuple):
    """What needle has to know of a type of arrays."""

    xp: ModuleType  # the module of their functions
    device_of: Callable[[Array], Device]
    to_numpy: Callable[[Array], np.ndarray]


_array_types: dict[type, _ArrayType] = {
    np.ndarray: _ArrayType(np, lambda array: _CPU, lambda array: array),
    np.generic: _ArrayType(np, lambda array: _CPU, np.asarray),
}


def register_array_type(array_type: type, xp: ModuleType, device_of: Callable, to_numpy: Callable) -> None:
    """Have needle compute on arrays of one more type.

    Parameters
    ----------
    array_type : type
        Its instances, and those of subclasses, are arrays.
    xp : module
        With NumPy's functions for such arrays.
    device_of : callable
        The `Device` of an array.
    to_numpy : callable
        The array copied into a ``numpy.ndarray``.
    """
    _array_types[array_type] = _ArrayType(xp, device_of, to_numpy)


def array_types() -> tuple[type, ...]:
    """The types of arrays that are in use: ``numpy.ndarray``, and ``cupy.ndarray`` once cupy is imported."""
    if "cupy" in sys.modules:
        _load_cupy()
    return tuple([kind for kind in _array_types if kind is not np.generic])


def _load_cupy() -> ModuleType:
    import cupy

    if cupy.ndarray not in _array_types:
        register_array_type(cupy.ndarray, cupy, lambda array: cuda(array.device.id), lambda array: array.get())
    return cupy


def _array_type(value: Any) -> _ArrayType | None:
    """What is known of the type of `value`; None if it is no array."""
    kind = type(value)
    found = _array_types.get(kind)
    if found is None:
        if kind.__module__.partition(".")[0] == "cupy" and "cupy" in sys.modules:
            _load_cupy()
        found = next((_array_types[base] for base in kind.__mro__ if base in _array_types), None)
    return found


def _known(array: Array) -> _ArrayType:
    found = _array_type(array)
    if found is None:
        raise TypeError(f"an array of NumPy or CuPy is needed, got {type(array).__name__}")
    return found


def array_module(array: Array) -> ModuleType:
    """The module whose functions work on `array`: ``numpy`` or ``cupy``."""
    return np if type(array) is np.ndarray else _known(array).xp


def is_array(value: object) -> bool:
    """Whether `value` is an array that ops compute on (NumPy scalars count: they are what 0-d results come as)."""
    return type(value) is np.ndarray or _array_type(value) is not None


def as_array(value: Array, like: Array) -> Array:
    """`value` if it is an array, else one like `like`: reductions and 0-d arithmetic in NumPy give scalars."""
    return value if is_array(value) and not isinstance(value, np.generic) else array_module(like).asarray(value)


def device_of(array: Array) -> Device:
    """The device that `array` lives on."""
    return _CPU if type(array) is np.ndarray else _known(array).device_of(array)


def zeros_like(array: Array) -> Array:
    """A new array of zeros of the shape and dtype of `array`, on its device."""
    return device_of(array).zeros(array.shape, array.dtype)


def copy(array: Array) -> Array:
    """A copy of `array`, on its device."""
    with scope(array):
        return array.copy()


def device_for(data: Any) -> Device:
    """Where a tensor of `data` is made if no device is named: a GPU's array stays there, else the default device."""
    found = _array_type(data)
    return _default if found is None or found.xp is np else found.device_of(data)


def to_numpy(array: Any) -> np.ndarray:
    """`array` as a NumPy array: itself if it is one already, a copy if it lives on a GPU."""
    if type(array) is np.ndarray:
        return array
    found = _array_type(array)
    return np.asarray(array) if found is None else found.to_numpy(array)


class OutOfMemory(MemoryError):
    """A GPU's memory does not suffice; the text says what was asked for, what is free, and who holds the most."""


class _Scope:
    """A context in which a GPU is the current one, and in which running out of its memory is explained."""

    def __init__(self, device: Device):
        self._device = device
        self._current = device.xp.cuda.Device(device.index)

    def __enter__(self) -> None:
        self._current.__enter__()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self._current.__exit__(kind, error, traceback)
        if isinstance(error, MemoryError) and not isinstance(error, OutOfMemory):
            from .out_of_memory import explanation  # not at the top: it knows tensors

            raise OutOfMemory(explanation(error, self._device)) from error


_no_scope = contextlib.nullcontext()


def scope(array: Any) -> contextlib.AbstractContextManager:
    """A context for computing with `array` (or a tuple of them): new arrays are made where it lives.

    Raises
    ------
    OutOfMemory
        On leaving it, if a GPU's memory did not suffice.
    """
    array = next(_flat((array,)), None)
    return _no_scope if array is None or array_module(array) is np else device_of(array).current()


def compute(function: Callable, arrays: Sequence[Any]) -> Any:
    """``function(*arrays)``, an op's compute, in the `scope` of the arrays.

    Raises
    ------
    ValueError
        If they do not all live on one device.
    """
    devices = dict.fromkeys([device_of(array) for array in _flat(arrays)])
    if len(devices) > 1:
        op = getattr(function, "__self__", function)
        names = " and ".join(map(repr, devices))
        raise ValueError(f"{op}: operands on {names}: move one with .to(device)")
    with scope(arrays):
        return function(*arrays)


def make_current(array: Any) -> None:
    """Make the device of `array` (an array, or a tuple of them) the current one until another is."""
    array = next(_flat((array,)), None)
    if type(array) is not np.ndarray and array is not None:
        device = device_of(array)
        if device != _CPU:
            device.xp.cuda.Device(device.index).use()


def _flat(arrays: Any) -> Iterator[Array]:
    """The arrays among arrays and tuples of them."""
    for value in arrays:
        if isinstance(value, (tuple, list)):
            yield from _flat(value)
        elif is_array(value):
            yield value


def weak(scalar: Any, array: Array) -> Any:
    """`scalar` in the form that never widens `array`: NumPy 1.26 would promote a 0-d float32 to float64.

    Raises
    ------
    ValueError
        If an integer does not fit an integer array's dtype.
    """
    dtype = array.dtype
    if dtype.kind in "iu" and type(scalar) is int:
        limits = np.iinfo(dtype)
        if not limits.min <= scalar <= limits.max:
            raise ValueError(f"the number {scalar} does not fit a tensor of {dtype}: astype a wider dtype first")
        return dtype.type(scalar)
    if _NEP50 or array.ndim or dtype.kind != "f":
        return scalar
    return dtype.type(scalar)


_deterministic = False


def deterministic(on: bool = True) -> bool:
    """Whether to use only what gives the same bits in every run, also on a GPU; returns what was set before.

    On the CPU everything does so. On a GPU, sums into places that an index names several times (the gradients of
    indexing and of embeddings) are otherwise taken in the order in which threads arrive; set, they are sorted first.

    Parameters
    ----------
    on : bool

    Notes
    -----
    What has no deterministic version raises RuntimeError when it is used: such a sum in another dtype than float32 and
    float64.

    Examples
    --------
    >>> import needle as ndl
    >>> before = ndl.deterministic(True)
    >>> ndl.deterministic(before)
    True
    """
    global _deterministic
    before, _deterministic = _deterministic, bool(on)
    return before


def scatter_add(target: Array, index: Any, values: Array) -> None:
    """``target[index] += values`` in place, where an index that occurs twice is added twice."""
    xp = array_module(target)
    if not _deterministic or xp is np or target.dtype.kind != "f":  # sums of integers are the same in any order
        xp.add.at(target, index, values)
        return
    from .kernels import fit, scatter

    if not fit(target) or not target.flags.c_contiguous:
        raise RuntimeError(
            f"scatter_add: on a GPU there is no sum of {target.dtype} that gives the same bits in every run, as "
            "deterministic(True) asks for: float32 and float64 in contiguous memory have one"
        )
    scatter.add(target, index, values)
