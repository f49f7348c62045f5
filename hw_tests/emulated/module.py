"""The module that stands in for cupy: every function is NumPy's, behind the checks that cupy would make."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from . import cublas, memory
from .array import VIEWS, launch, matmul_launches, ndarray, new, operand, power
from .counts import record
from .indexing import accumulate, wrap_index
from .raw import RawModule
from .signatures import check_call, find, real

#: Functions that need no kernel: they look at types, or at an array in another way.
_FREE = {
    "result_type", "can_cast", "promote_types", "finfo", "iinfo", "issubdtype", "dtype", "isscalar", "shape", "ndim",
    "size", "empty", "empty_like", "may_share_memory", "shares_memory", "broadcast_shapes", "get_array_module",
}  # fmt: skip
_VIEWS = {
    *VIEWS, "moveaxis", "rollaxis", "expand_dims", "broadcast_to", "broadcast_arrays", "flip", "fliplr", "flipud",
    "split", "array_split", "hsplit", "vsplit", "atleast_1d", "atleast_2d", "atleast_3d", "diag", "permute_dims",
    "matrix_transpose", "lib.stride_tricks.as_strided", "lib.stride_tricks.sliding_window_view", "rot90",
    "ascontiguousarray", "asfortranarray",
}  # fmt: skip
#: Functions whose result has a shape that depends on values, so that the host waits, or that look at values to check.
_WAITING = {
    "nonzero", "flatnonzero", "argwhere", "unique", "extract", "compress", "bincount", "trim_zeros", "histogram",
    "setdiff1d", "intersect1d", "union1d", "linalg.inv", "linalg.solve", "linalg.cholesky",
}  # fmt: skip
#: Launches of functions that are made of several kernels.
_SEVERAL = {"var": 2, "std": 3, "linalg.norm": 3, "pad": 2, "histogram": 3, "average": 3, "clip": 1, "tensordot": 2}
_ADDABLE = {np.dtype(name) for name in ("int32", "uint32", "uint64", "float16", "float32", "float64")}


def call(path: str, function: Any, args: tuple, kwargs: dict, launches: int) -> Any:
    """Apply NumPy's `function` on unwrapped arguments if cupy's at `path` takes them."""
    check_call(path, args, kwargs)
    if path in ("clip", "ndarray.clip") and args[0].dtype.kind in "iu":
        for limit in (value for value in (*args[1:], *kwargs.values()) if type(value) is int):
            args[0].dtype.type(0) + limit  # cupy makes it one of this dtype, which raises OverflowError
    arrays: list[ndarray] = []
    plain = [_unwrap(arg, arrays) for arg in args]
    keywords = {name: _unwrap(value, arrays) for name, value in kwargs.items()}
    keywords.pop("blocking", None)
    out = kwargs.get("out")
    result = function(*plain, **keywords)
    if isinstance(out, ndarray) or result is None:  # copyto gives None
        record("launch", path, launches, size=sum(a.nbytes for a in arrays))
        return out
    return launch(path, result, *arrays, times=launches)


def _unwrap(value: Any, arrays: list[ndarray]) -> Any:
    if type(value) is ndarray:
        arrays.append(value)
        return operand(value)
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, (list, tuple)):
        return type(value)([_unwrap(item, arrays) for item in value])
    return value


class Function:
    """One function of cupy."""

    def __init__(self, path: str):
        self.path = path
        self.function: Any = np
        for part in path.split("."):
            self.function = getattr(self.function, part)
        if path == "power":
            self.function = power
        name = path.rpartition(".")[2]
        self.launches = 0 if path in _FREE else _SEVERAL.get(path, 1)
        self.is_view = name in _VIEWS or path in _VIEWS

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.path in _WAITING or (self.path == "where" and len(args) == 1):
            record("sync", self.path, size=1)
        times = self.launches
        if self.path == "einsum":
            times = max(1, len(args) - 2)
        elif self.path == "matmul":
            times = matmul_launches(*args[:2])
        elif self.path in ("concatenate", "stack", "vstack", "hstack"):
            times = len(args[0])
        return call(self.path, self.function, args, kwargs, times)

    def __repr__(self) -> str:
        return f"<emulated cupy.{self.path}>"


class UFunc(Function):
    """One of cupy's elementwise functions, which have methods of their own."""

    def at(self, target: ndarray, index: Any, value: Any = None) -> None:
        check_call(f"{self.path}.at", (None, target, index, value), {})
        values = operand(target)
        if values.dtype not in _ADDABLE:
            raise TypeError(f"cupy.{self.path}.at only supports {', '.join(sorted(map(str, _ADDABLE)))}")
        index, _ = wrap_index(index, target.shape, reading=False)
        record("launch", f"{self.path}.at", size=3 * getattr(value, "nbytes", target.itemsize))
        accumulate(self.function, values, index, operand(value))

    def reduce(self, *args: Any, **kwargs: Any) -> Any:
        return call(f"{self.path}.reduce", self.function.reduce, args, kwargs, 1)

    def accumulate(self, *args: Any, **kwargs: Any) -> Any:
        return call(f"{self.path}.accumulate", self.function.accumulate, args, kwargs, 1)


def _wrapped(path: str) -> Any:
    """``take``: NumPy raises where cupy lets indices wrap."""

    def take(a: ndarray, indices: Any, axis: Any = None, out: Any = None) -> Any:
        size = a.size if axis is None else a.shape[axis]
        places = operand(indices) % max(size, 1)
        return call(path, lambda values, _, **how: np.take(values, places, **how), (a, indices), {"axis": axis}, 1)

    return take


def _array(obj: Any, dtype: Any = None, copy: bool = True, order: str = "K", **kwargs: Any) -> ndarray:
    """``cupy.array``: one of the ways for data to come from the host."""
    check_call("array", (obj,), {"dtype": dtype, "copy": copy, "order": order, **kwargs})
    if type(obj) is ndarray:
        here, flags = obj.device == memory.current_device(), obj.flags
        in_order = order != "C" or flags.c_contiguous
        if not copy and (dtype is None or obj.dtype == np.dtype(dtype)) and here and in_order:
            return obj
        if not here and order == "K" and not (flags.c_contiguous or flags.f_contiguous):
            raise NotImplementedError("CuPy cannot copy non-contiguous array between devices.")
        return launch("array", np.array(obj._values, dtype=dtype, order=order), obj)
    arrays: list[ndarray] = []
    values = np.array(_unwrap(obj, arrays) if isinstance(obj, (list, tuple)) else obj, dtype=dtype)
    if arrays:
        return launch("array", values, *arrays, times=len(arrays))
    record("upload", "array", size=values.nbytes)
    if kwargs.get("blocking"):
        record("sync", "array")
    return new(values)


def _asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, blocking: bool = False) -> ndarray:
    """``cupy.asarray``: the array itself if it is one."""
    return _array(a, dtype=dtype, copy=bool(copy), order=order or "K", blocking=blocking)


def _asnumpy(a: Any, *args: Any, **kwargs: Any) -> np.ndarray:
    check_call("asnumpy", (a, *args), kwargs)
    return a.get() if type(a) is ndarray else np.asarray(a)


def _from_dlpack(array: Any, **kwargs: Any) -> ndarray:
    check_call("from_dlpack", (array,), kwargs)
    return array[...] if type(array) is ndarray else new(np.from_dlpack(array))


class RandomState:
    """``cupy.random.RandomState``: numbers drawn on the GPU, by Philox if that is the method."""

    def __init__(self, seed: Any = None, method: Any = None):
        check_call("random.RandomState", (seed,), {"method": method})
        self._kind = {None: np.random.MT19937, 161: np.random.Philox}[method]
        self.seed(seed)

    def seed(self, seed: Any = None) -> None:
        if seed is not None and not 0 <= seed < 2**64:
            raise ValueError("Seed must be an integer between 0 and 2**64 - 1")
        self._state = np.random.RandomState(self._kind(seed))

    def random_sample(self, size: Any = None, dtype: Any = float) -> ndarray:
        return launch("random_sample", np.asarray(self._state.random_sample(size)).astype(dtype))

    def standard_normal(self, size: Any = None, dtype: Any = float) -> ndarray:
        return launch("standard_normal", np.asarray(self._state.standard_normal(size)).astype(dtype))


_OWN: dict[str, Any] = {
    "ndarray": ndarray,
    "RawModule": RawModule,
    "array": _array,
    "asarray": _asarray,
    "take": _wrapped("take"),
    "asnumpy": _asnumpy,
    "from_dlpack": _from_dlpack,
    "random.RandomState": RandomState,
    "get_default_memory_pool": lambda: memory.pool,
    "cuda.get_cublas_handle": lambda: 0,
    "cuda.Device": memory.Device,
    "cuda.MemoryHook": memory.MemoryHook,
    "cuda.Stream": memory.Stream,
    "cuda.get_current_stream": memory.Stream,
    "cuda.memory.OutOfMemoryError": memory.OutOfMemoryError,
    "cuda.runtime.getDeviceCount": lambda: memory.DEVICES,
    "cuda.runtime.getDeviceProperties": lambda index: {"name": b"emulated"},
}


class Module(types.ModuleType):
    """cupy, or one of its submodules: attributes are made when they are asked for, if the real one has them."""

    def __init__(self, path: str = ""):
        super().__init__(f"emulated.cupy.{path}" if path else "emulated.cupy")
        self._path = path
        self.__version__ = real.__version__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        path = f"{self._path}.{name}" if self._path else name
        value = self._make(path)
        setattr(self, name, value)
        return value

    def _make(self, path: str) -> Any:
        if path == "cuda.cublas":  # cupy's own cannot be imported without the library, see there
            return cublas
        original = find(path)
        if path in _OWN:
            return _OWN[path]
        if isinstance(original, types.ModuleType):
            return Module(path)
        if isinstance(original, type) or not callable(original):  # float32, pi, newaxis
            value = getattr(np, path, None)
            if value is original:
                return value
            raise AttributeError(f"the emulated cupy lacks {path}")
        if not hasattr(np, path.partition(".")[0]):
            raise AttributeError(f"the emulated cupy lacks {path}")
        return (UFunc if hasattr(original, "at") else Function)(path)


cupy = Module()
