"""Batches of matrix products on a GPU, straight by cuBLAS, which takes transposed operands as they lie in memory.

``cupy.matmul`` does so for two matrices, but copies the operands of a batch unless they are contiguous. Here a copy is
left to it only where memory has no form that cuBLAS knows: batch axes without one stride, or rows and columns that
both have gaps.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from ..backend import Array, Shape, array_module

_KEPT, _TRANSPOSED = 0, 1  # cublasOperation_t


def matmul(a: Array, b: Array) -> Array:
    """A·B of every batch entry.

    cuBLAS counts memory by columns. Rows laid out one after another are to it the columns of the transposed matrix, so
    that it is asked for (A·B)ᵀ = Bᵀ·Aᵀ.

    Parameters
    ----------
    a, b : array
        Of one GPU and dtype, float32 or float64; shapes (…, n, k) and (…, k, m), whose batch axes … broadcast.

    Returns
    -------
    array
        Shape (…, n, m), contiguous.
    """
    xp = array_module(a)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left, right = _operand(xp.broadcast_to(a, batch + a.shape[-2:])), _operand(xp.broadcast_to(b, batch + b.shape[-2:]))
    (n, k), m, count = a.shape[-2:], b.shape[-1], math.prod(batch)
    if left is None or right is None or not n * k * m * count:
        return xp.matmul(a, b)
    result = xp.empty((*batch, n, m), dtype=a.dtype)
    cublas = xp.cuda.cublas
    gemm = cublas.sgemmStridedBatched if a.dtype == np.float32 else cublas.dgemmStridedBatched
    one, zero = np.ones((), a.dtype), np.zeros((), a.dtype)
    gemm(
        *(xp.cuda.get_cublas_handle(), right[0], left[0], m, n, k),
        *(one.ctypes.data, b.data.ptr, *right[1:], a.data.ptr, *left[1:]),
        *(zero.ctypes.data, result.data.ptr, m, n * m, count),
    )
    return result


def _operand(a: Array) -> tuple[int, int, int] | None:
    """How cuBLAS finds the matrices of a batch: transposed or not, leading dimension, stride; None if it cannot."""
    *batch, row, column = [stride // a.itemsize for stride in a.strides]
    rows, columns = a.shape[-2:]
    stride = _batch_stride(a.shape[:-2], batch)
    if stride is None:
        return None
    if (columns == 1 or column == 1) and (rows == 1 or row >= columns):
        return _KEPT, row if rows > 1 else columns, stride
    if (rows == 1 or row == 1) and (columns == 1 or column >= rows):
        return _TRANSPOSED, column if columns > 1 else rows, stride
    return None


def _batch_stride(shape: Shape, strides: list[int]) -> int | None:
    """The one stride from each batch entry to the next, whatever the number of batch axes; None if there is none."""
    axes = [(size, stride) for size, stride in zip(shape, strides) if size != 1]
    for (_, outer), (size, inner) in itertools.pairwise(axes):
        if outer != size * inner:
            return None
    return axes[-1][1] if axes else 0
