"""``cupy.cuda.cublas``: products of matrices by the addresses of their memory, as cuBLAS reads it, column by column.

The library itself is not there without a GPU, so that cupy's binding of it cannot be imported; how it is called stands
in the binding's file.
"""

from __future__ import annotations

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


class _Memory:
    """What lies at an address, for ``np.asarray``."""

    def __init__(self, address: int, dtype: np.dtype, shape: tuple = (), strides: tuple = ()):
        bytes_between = tuple([step * dtype.itemsize for step in strides])
        self.__array_interface__ = {
            "version": 3, "data": (address, False), "typestr": dtype.str, "shape": shape, "strides": bytes_between,
        }  # fmt: skip


def _matrices(start: int, dtype: np.dtype, rows: int, columns: int, leading: int, stride: int, count: int) -> Any:
    """A view of `count` matrices that are laid out by columns."""
    if leading < max(rows, 1):
        raise ValueError(f"cuBLAS: leading dimension {leading} of a matrix with {rows} rows")
    return np.asarray(_Memory(start, dtype, (count, rows, columns), (stride, 1, leading)))


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
        alpha, beta = (np.asarray(_Memory(given[key], dtype)) for key in ("alpha", "beta"))
        product = alpha * np.matmul(*operands)
        result[...] = product + beta * result if beta else product
        record("launch", name, size=result.nbytes + sum(operand.nbytes for operand in operands))

    return gemm


sgemmStridedBatched = _gemm_strided_batched("sgemmStridedBatched", np.dtype("float32"))
dgemmStridedBatched = _gemm_strided_batched("dgemmStridedBatched", np.dtype("float64"))
