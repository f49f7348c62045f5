"""``cupy.cuda.cublas``: products of matrices by the addresses of their memory, as cuBLAS reads it, column by column.

The library itself is not there without a GPU, so that cupy's binding of it cannot be imported; how it is called stands
in the binding's file.
"""

from __future__ import annotations

import ctypes
import importlib.util
import inspect
import pathlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .counts import record
from .signatures import parse


def _signature(name: str) -> inspect.Signature:
    """What the documentation of a function states, in the compiled binding."""
    spec = importlib.util.find_spec("cupy_backends.cuda.libs.cublas")
    binary = pathlib.Path(spec.origin).read_bytes()  # type: ignore[union-attr, arg-type]
    found = re.search(rb"\b" + name.encode() + rb"\(([^)]*)\)", binary)
    if found is None:
        raise AttributeError(f"cupy's binding of cuBLAS has no {name}")
    return parse(found.group(1).decode())


def _memory(address: int, count: int, dtype: np.dtype) -> np.ndarray:
    """`count` numbers from `address` on."""
    return np.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(address), dtype)


def _matrices(start: int, dtype: np.dtype, rows: int, columns: int, leading: int, stride: int, count: int) -> Any:
    """A view of `count` matrices that are laid out by columns."""
    if leading < max(rows, 1):
        raise ValueError(f"cuBLAS: leading dimension {leading} of a matrix with {rows} rows")
    memory = _memory(start, stride * (count - 1) + leading * (columns - 1) + rows, dtype)
    strides = [step * dtype.itemsize for step in (stride, 1, leading)]
    return np.lib.stride_tricks.as_strided(memory, (count, rows, columns), strides)


def _gemm_strided_batched(name: str, dtype: np.dtype) -> Callable:
    def gemm(*args: Any, **kwargs: Any) -> None:
        given = _signature(name).bind(*args, **kwargs).arguments
        m, n, k, count = (given[key] for key in ("m", "n", "k", "batchCount"))
        operands = []
        for key, shape in (("a", (m, k)), ("b", (k, n))):
            transposed = given[f"trans{key}"] == 1
            at = [given[key.upper()], given[f"ld{key}"], given[f"stride{key.upper()}"]]
            stored = _matrices(at[0], dtype, *(shape[::-1] if transposed else shape), *at[1:], count)
            operands.append(stored.swapaxes(1, 2) if transposed else stored)
        result = _matrices(given["C"], dtype, m, n, given["ldc"], given["strideC"], count)
        alpha, beta = (_memory(given[key], 1, dtype)[0] for key in ("alpha", "beta"))
        product = alpha * np.matmul(*operands)
        result[...] = product + beta * result if beta else product
        record("launch", name, size=result.nbytes + sum(operand.nbytes for operand in operands))

    return gemm


sgemmStridedBatched = _gemm_strided_batched("sgemmStridedBatched", np.dtype("float32"))
dgemmStridedBatched = _gemm_strided_batched("dgemmStridedBatched", np.dtype("float64"))
