"""Launch compiled kernels on NumPy arrays, with the arguments that cupy would pass."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .build import library

_ITEMS = {"float": "float32", "double": "float64", "longlong": "int64", "int": "int32", "unsignedint": "uint32"}


_THREE_SIZES = ctypes.c_uint * 3


@functools.cache
def _pointers(count: int) -> Any:
    return ctypes.c_void_p * count


class KernelError(RuntimeError):
    """A kernel did what it must not: the text says which kernel, what, where and in which thread."""


class Program:
    """The kernels of one source.

    Parameters
    ----------
    source : str
        CUDA C++.
    watched : bool
        Whether accesses to memory are watched for races and for leaving the arguments; slower by far.
    """

    def __init__(self, source: str, watched: bool = True):
        path, self.signatures = library(source, watched)
        self._watched = watched
        self._library = ctypes.CDLL(str(path))
        # Once for all launches: ctypes leaves a reference cycle behind at each cast, and at each new type of array.
        self._entries = {
            name: ctypes.cast(getattr(self._library, f"call_{name}"), ctypes.c_void_p) for name in self.signatures
        }
        self._library.shim_error.restype = ctypes.c_char_p
        self._library.shim_region.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
        self._library.shim_launch.argtypes = [
            *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
            *(ctypes.c_size_t, ctypes.c_uint, ctypes.c_int),
        ]

    def launch(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[Any],
        shared_mem: int = 0,
        seed: int = 0,
        memory: Sequence[np.ndarray] = (),
    ) -> None:
        """Run a kernel to its end.

        Parameters
        ----------
        name : str
            Of an ``extern "C" __global__`` function.
        grid, block : sequence of int
            Up to three sizes each.
        args : sequence
            Contiguous arrays and numbers of exactly the types of the parameters: a GPU would not notice others.
        shared_mem : int
            Bytes of shared memory.
        seed : int
            Of the order in which blocks and threads take turns.
        memory : sequence of array
            Further arrays that the kernel finds by their address.

        Raises
        ------
        KernelError
            If arguments do not fit the parameters, threads wait for ever, or (when watched) memory is misused.
        """
        types = self.signatures.get(name)
        if types is None:
            raise KernelError(f"no kernel {name}: there are {', '.join(self.signatures)}")
        if len(types) != len(args):
            raise KernelError(f"{name} has {len(types)} parameters, got {len(args)} arguments")
        values = [self._value(name, i, kind, arg) for i, (kind, arg) in enumerate(zip(types, args))]
        if self._watched:
            for i, array in enumerate([*args, *memory]):
                if isinstance(array, np.ndarray) and array.size:
                    self._library.shim_region(array.ctypes.data, array.nbytes, array.itemsize, i)
        addresses = _pointers(len(values))(*[ctypes.addressof(value) for value in values])
        sizes = [_THREE_SIZES(*([int(n) for n in size] + [1] * (3 - len(size)))) for size in (grid, block)]
        if self._library.shim_launch(self._entries[name], addresses, *sizes, int(shared_mem), seed, int(self._watched)):
            raise KernelError(f"{name}: {self._library.shim_error().decode()}")

    @staticmethod
    def _value(name: str, position: int, kind: str, arg: Any) -> Any:
        """One argument in the form that C takes it, as cupy would pass it."""
        what = f"{name}: argument {position} is a {kind}, got"
        if kind.endswith("*"):
            if arg is None:
                return ctypes.c_void_p(0)
            if not isinstance(arg, np.ndarray) or arg.dtype != _ITEMS[kind[:-1]]:
                raise KernelError(f"{what} {getattr(arg, 'dtype', type(arg).__name__)}")
            if not arg.flags.c_contiguous:
                raise KernelError(f"{what} an array that is not contiguous")
            return ctypes.c_void_p(arg.ctypes.data)
        if kind == "longlong" and isinstance(arg, (int, np.int64)) and not isinstance(arg, bool):
            return ctypes.c_longlong(int(arg))
        if kind == "double" and isinstance(arg, float):
            return ctypes.c_double(arg)
        if kind in _ITEMS and isinstance(arg, np.generic) and arg.dtype == _ITEMS[kind]:
            return np.ctypeslib.as_ctypes_type(arg.dtype)(arg.item())
        raise KernelError(f"{what} {type(arg).__name__}")
