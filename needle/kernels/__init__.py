"""CUDA kernels: where launches are what costs, one kernel does the work of many.

The sources are the ``.cu`` files beside this one. `launch` compiles the file that a kernel stands in when it is first
asked for (cupy keeps compiled kernels on disk) and starts the kernel's float32 or float64 version. Nothing here is
imported, let alone compiled, unless an array lives on a GPU.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from .. import backend
from ..backend import Array

_FOLDER = pathlib.Path(__file__).parent
_VERSIONS = {np.dtype("float32"): "float", np.dtype("float64"): "double"}

#: As cupy passes them to the compiler.
OPTIONS = ("-std=c++17",)

#: Which file a kernel stands in.
FILES = {
    "adam": "multi_tensor",
    "bias_relu": "elementwise",
    "blend": "elementwise",
    "blur_gather": "blur",
    "blur_spread": "blur",
    "cross_entropy": "cross_entropy",
    "cross_entropy_gradient": "cross_entropy",
    "dropout": "elementwise",
    "normalize": "normalization",
    "normalize_gradient": "normalization",
    "row_parameters_gradient": "normalization",
    "scatter_add": "scatter",
    "sgd": "multi_tensor",
}

#: Shared memory in bytes that a block may have everywhere; more has to be asked for.
SHARED_MEMORY = 48 * 1024


def fit(*arrays: Array) -> bool:
    """Whether there are kernels for these arrays: on a GPU, all of one dtype, which is float32 or float64.

    Examples
    --------
    >>> import numpy as np
    >>> fit(np.ones(3))
    False
    """
    first = arrays[0]
    return type(first) is not np.ndarray and first.dtype in _VERSIONS and all(a.dtype == first.dtype for a in arrays)


def launch(
    name: str,
    grid: Sequence[int],
    block: Sequence[int],
    *args: Any,
    dtype: Any,
    shared_memory: int = 0,
) -> None:
    """Start a kernel on the current GPU.

    Parameters
    ----------
    name : str
        One of `FILES`.
    grid, block : sequence of int
        Number of blocks, and of threads in each.
    *args : array, int or float
        The kernel's arguments. Arrays are contiguous and of the types that the kernel states.
    dtype : dtype
        float32 or float64: which version of the kernel.
    shared_memory : int
        Bytes for each block.
    """
    like = next(a for a in args if backend.is_array(a))
    xp = backend.array_module(like)
    kernel = _kernel(xp, backend.device_of(like), name, _VERSIONS[np.dtype(dtype)], shared_memory > SHARED_MEMORY)
    kernel(tuple(grid), tuple(block), args, shared_mem=shared_memory)


def source(file: str) -> str:
    """The CUDA C++ of one file, with what all files share in front."""
    return "".join((_FOLDER / f"{name}.cu").read_text(encoding="utf-8") for name in ("common", file))


@functools.cache
def _module(xp: ModuleType, file: str) -> Any:
    return xp.RawModule(code=source(file), options=OPTIONS)


@functools.cache
def _kernel(xp: ModuleType, device: backend.Device, name: str, version: str, large: bool) -> Any:
    kernel = _module(xp, FILES[name]).get_function(f"{name}_{version}")
    if large:  # a limit of each GPU, by its architecture
        kernel.max_dynamic_shared_size_bytes = shared_memory_limit(xp)
    return kernel


def shared_memory_limit(xp: ModuleType) -> int:
    """The most shared memory, in bytes, that a block can have on the current GPU."""
    return int(xp.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"])


def contiguous(array: Array) -> Array:
    """`array` itself if it lies in memory in order, else a copy: kernels count elements."""
    return backend.array_module(array).ascontiguousarray(array)
