"""The array of the emulated GPU: NumPy memory that only the emulated cupy computes on."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import memory
from .counts import record
from .indexing import assign, wrap_index
from .signatures import check_call, real


class ndarray:
    """Like ``cupy.ndarray``: what is not here, or takes other arguments, cupy does not have either."""

    __slots__ = ("__weakref__", "_owned", "_values", "base", "device")
    __hash__ = None
    __array_priority__ = 100

    def __init__(self, values: np.ndarray, device: Any, base: ndarray | None = None):
        self._owned = 0
        if values.dtype.kind not in "biufc" or values.dtype.itemsize > 16 or values.dtype == np.longdouble:
            raise ValueError(f"Unsupported dtype {values.dtype}")
        if base is None:
            memory.pool.take(device, values.nbytes)
            self._owned = values.nbytes
        self._values = values
        self.base = base
        self.device = device

    def __del__(self) -> None:
        if self._owned:
            memory.pool.give_back(self.device, self._owned)

    # -- what it is

    shape = property(lambda self: self._values.shape)
    ndim = property(lambda self: self._values.ndim)
    size = property(lambda self: self._values.size)
    dtype = property(lambda self: self._values.dtype)
    nbytes = property(lambda self: self._values.nbytes)
    itemsize = property(lambda self: self._values.itemsize)
    strides = property(lambda self: self._values.strides)
    T = property(lambda self: view_of(self._values.T, self))
    real = property(lambda self: view_of(self._values.real, self))

    @property
    def flags(self) -> Flags:
        return Flags(self._values.flags)

    @property
    def data(self) -> memory.Pointer:
        return memory.Pointer(self._values.ctypes.data)

    def __len__(self) -> int:
        return len(self._values)

    # -- from the GPU to the host

    def get(self, *args: Any, **kwargs: Any) -> np.ndarray:
        check_call("ndarray.get", (self, *args), kwargs)
        record("sync", "get", size=max(self.nbytes, 1))
        return self._values.copy()

    def item(self) -> Any:
        record("sync", "item", size=self.itemsize)
        return self._values.item()

    def tolist(self) -> Any:
        record("sync", "tolist", size=max(self.nbytes, 1))
        return self._values.tolist()

    def __reduce__(self) -> tuple:
        from .module import cupy

        return cupy.array, (self.get(),)

    def __deepcopy__(self, memo: dict) -> ndarray:
        with self.device:
            return self.copy()

    def __repr__(self) -> str:
        return repr(self.get())

    def __str__(self) -> str:
        return str(self.get())

    def __format__(self, spec: str) -> str:
        return format(self.get(), spec)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed: use .get()")

    # NumPy's functions on a GPU array would compute on the CPU, or rely on cupy to notice
    __array_ufunc__ = None

    def __array_function__(self, function: Callable, *rest: Any) -> Any:
        raise TypeError(f"np.{function.__name__} was called with an array of the GPU: take the array's own module")

    # -- parts

    def __getitem__(self, index: Any) -> ndarray:
        index, is_copy = wrap_index(index, self.shape, reading=True)
        result = self._values[index]
        if is_copy:
            record("launch", "getitem", size=2 * np.asarray(result).nbytes)
            return new(result)
        return view_of(np.asarray(result) if isinstance(result, np.ndarray) else self._values[(*index, ...)], self)

    def __setitem__(self, index: Any, value: Any) -> None:
        value = operand(value)
        index, _ = wrap_index(index, self.shape, reading=False)
        assign(self._values, index, value)
        record("launch", "setitem", size=2 * np.asarray(self._values[index]).nbytes)

    def __iter__(self) -> Iterator[ndarray]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    # -- methods that NumPy's arrays have with another signature

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = None, subok: Any = None, copy: bool = True
    ) -> ndarray:
        if not copy and self.dtype == np.dtype(dtype):
            return self
        return launch("astype", self._values.astype(dtype, order), self)

    def take(self, indices: Any, axis: Any = None, out: Any = None) -> ndarray:
        from .module import cupy

        return cupy.take(self, indices, axis)

    def fill(self, value: Any) -> None:
        self._values.fill(operand(value))
        record("launch", "fill", size=self.nbytes)

    def set(self, array: np.ndarray, stream: Any = None) -> None:
        if not isinstance(array, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if array.shape != self.shape or array.dtype != self.dtype:
            raise ValueError(f"{array.dtype} of shape {array.shape} set to {self.dtype} of shape {self.shape}")
        self._values[...] = array
        record("upload", "set", size=self.nbytes)

    # -- exchange

    def __dlpack__(self, **kwargs: Any) -> Any:
        check_call("ndarray.__dlpack__", (self,), kwargs)
        operand(self)  # the stream that the other library waits for is the current GPU's
        raise BufferError("the memory of an emulated GPU is nobody else's")

    def __dlpack_device__(self) -> tuple[int, int]:
        from .device import EmulatedDevice

        return EmulatedDevice.dlpack_type, self.device.id


class Flags:
    """``array.flags`` with what cupy's has; it knows no ``writeable``."""

    def __init__(self, flags: Any):
        self.c_contiguous, self.f_contiguous, self.owndata = flags.c_contiguous, flags.f_contiguous, flags.owndata


# ------------------------------------------------------------------------------------------------ results and operands


def new(values: Any) -> ndarray:
    """An array of the current device over values that nobody else sees; reductions give 0-d arrays."""
    return ndarray(np.asarray(values), memory.current_device())


def view_of(values: np.ndarray, base: ndarray) -> ndarray:
    """A view of an array's memory."""
    return ndarray(values, base.device, base.base if base.base is not None else base)


def launch(name: str, result: Any, *operands: Any, times: int = 1) -> Any:
    """`result` as an array, or a view of the operand whose memory it shares, counted as `times` launches if new."""
    if isinstance(result, (tuple, list)):
        return type(result)([launch(name, item, *operands, times=times) for item in result])
    if not isinstance(result, (np.ndarray, np.generic)):
        return result
    if isinstance(result, np.ndarray):
        for array in operands:
            if not isinstance(array, ndarray):
                continue
            if array._values is result:
                return array
            if result.base is not None and np.may_share_memory(result, array._values):
                return view_of(result, array)
        if result.base is not None and not result.flags.owndata and isinstance(result.base, np.ndarray):
            result = result.view()
    array = new(result)
    if times:
        size = array.nbytes + sum(a.nbytes for a in operands if isinstance(a, ndarray))
        record("launch", name, times, size)
    return array


def operand(value: Any) -> Any:
    """The NumPy value of what a kernel is given: an array of the current device, or a scalar."""
    if type(value) is ndarray:
        if value.device != memory.current_device():
            raise ValueError(f"an array on {value.device} was used while {memory.current_device()} is current")
        return value._values
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def power(base: Any, exponent: Any, **kwargs: Any) -> Any:
    """``numpy.power``, but an integer to a negative integer power is no error: 0, or ±1 if it is ±1."""
    try:
        return np.power(base, exponent, **kwargs)
    except ValueError:
        if kwargs:
            raise
    small = np.where(np.abs(base) == 1, np.power(base, np.abs(exponent) % 2), 0)
    return np.where(exponent < 0, small, np.power(base, np.maximum(exponent, 0))).astype(np.result_type(base, exponent))


# --------------------------------------------------------------------------------------------------- generated methods


def _binary(name: str, function: Callable) -> Callable:
    def method(self: ndarray, other: Any) -> Any:
        if isinstance(other, (str, bytes, type(None), list, tuple, dict)):
            return NotImplemented
        if (
            type(other) is not ndarray
            and hasattr(type(other), "__array_ufunc__")
            and not isinstance(other, (np.ndarray, np.generic))
        ):
            return NotImplemented
        if name in _COMPARISONS and type(other) is int and self.dtype.kind in "iu":
            self.dtype.type(0) + other  # cupy makes the number one of this dtype, which raises OverflowError
        times = matmul_launches(self, other) if name == "matmul" else 1
        return launch(name, function(operand(self), operand(other)), self, other, times=times)

    return method


def matmul_launches(*operands: Any) -> int:
    """Kernels that ``cupy.matmul`` starts: of a batch it copies each operand that is not contiguous."""
    if max(np.ndim(operand(a)) for a in operands) <= 2:
        return 1
    return 1 + sum(not operand(a).flags.c_contiguous for a in operands)


def _reflected(name: str, function: Callable) -> Callable:
    def method(self: ndarray, other: Any) -> Any:
        return launch(name, function(operand(other), operand(self)), self, other)

    return method


def _in_place(name: str, function: Callable) -> Callable:
    def method(self: ndarray, other: Any) -> ndarray:
        function(operand(self), operand(other), out=self._values, casting="same_kind")
        record("launch", name, size=2 * self.nbytes + getattr(other, "nbytes", 0))
        return self

    return method


def _unary(name: str, function: Callable) -> Callable:
    def method(self: ndarray) -> Any:
        return launch(name, function(operand(self)), self)

    return method


def _waits(name: str, function: Callable) -> Callable:
    def method(self: ndarray) -> Any:
        record("sync", name, size=self.itemsize)
        return function(self._values)

    return method


def _method(name: str, launches: int) -> Callable:
    def method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        from .module import call

        return call(f"ndarray.{name}", getattr(np.ndarray, name), (self, *args), kwargs, launches)

    return method


_OPERATORS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": power, "matmul": np.matmul, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "lshift": np.left_shift, "rshift": np.right_shift,
}  # fmt: skip
for _name, _function in _OPERATORS.items():
    setattr(ndarray, f"__{_name}__", _binary(_name, _function))
    setattr(ndarray, f"__r{_name}__", _reflected(_name, _function))
    if _name != "matmul":  # cupy has no __imatmul__
        setattr(ndarray, f"__i{_name}__", _in_place(_name, _function))
_COMPARISONS = ("lt", "le", "eq", "ne", "gt", "ge")
for _name in _COMPARISONS:
    setattr(ndarray, f"__{_name}__", _binary(_name, getattr(operator, _name)))
for _name, _function in {"neg": np.negative, "pos": np.positive, "abs": np.abs, "invert": np.invert}.items():
    setattr(ndarray, f"__{_name}__", _unary(_name, _function))
for _name, _function in {"bool": bool, "int": int, "float": float, "complex": complex}.items():
    setattr(ndarray, f"__{_name}__", _waits(_name, _function))
ndarray.__index__ = _waits("index", operator.index)

#: Methods that only look at the array in another way; if memory does not allow it, they copy in one launch.
VIEWS = ("reshape", "ravel", "transpose", "swapaxes", "squeeze", "diagonal", "view")
_KERNELS = {
    "all": 1, "any": 1, "argmax": 1, "argmin": 1, "argsort": 1, "clip": 1, "conj": 1, "copy": 1, "cumprod": 1,
    "cumsum": 1, "dot": 1, "flatten": 1, "max": 1, "mean": 1, "min": 1, "prod": 1, "repeat": 1, "round": 1, "sort": 1,
    "std": 3, "sum": 1, "trace": 1, "var": 2,
}  # fmt: skip
for _name in VIEWS:
    setattr(ndarray, _name, _method(_name, 1))
for _name, _times in _KERNELS.items():
    setattr(ndarray, _name, _method(_name, _times))

_invented = [name for name in vars(ndarray) if not name.startswith("_") and not hasattr(real.ndarray, name)]
if _invented:
    raise AttributeError(f"cupy.ndarray has no {', '.join(_invented)}")
