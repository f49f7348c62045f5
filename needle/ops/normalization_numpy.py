"""Normalisation of the columns or the rows of a matrix in NumPy, in as few passes as its functions allow.

Sums over rows and over columns are products with vectors of ones, which BLAS does several times faster than
`numpy.sum`. Large matrices are gone through in blocks that stay in the cache from one pass to the next; the blocks'
sums are added up in the end, so that rounding errors hardly grow with the number of rows.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..backend import Array
from .sums import full, sum_of_rows

_COLUMN_BLOCK, _ROW_BLOCK = 1 << 18, 1 << 16  # elements
_LARGE = 1 << 16  # elements from which rows are joined
_WIDE = 1 << 10  # elements of a joined row


@lru_cache(maxsize=64)
def _joined(rows: int, columns: int) -> int:
    """How many rows to take as one.

    NumPy spends some 30 ns on each row of a broadcast, which outweighs the arithmetic of short rows. So k rows of a
    large matrix are taken as one, and the vector to be broadcast is repeated k times; k divides their number.
    """
    if rows * columns < _LARGE:
        return 1
    return next(k for k in range(max(1, _WIDE // columns), 0, -1) if rows % k == 0)


def _repeat(vector: Array, k: int) -> Array:
    if k == 1:
        return vector
    repeated = np.empty((k, vector.size), dtype=vector.dtype)
    repeated[:] = vector
    return repeated.reshape(-1)


def _blocks(size: int, *arrays: Array) -> list[tuple[Array, ...]]:
    """The arrays of equal length, in pieces of about `size` elements."""
    first = arrays[0]
    if first.size <= size:
        return [arrays]
    step = max(1, size // first[0].size)
    return [tuple([a[i : i + step] for a in arrays]) for i in range(0, len(first), step)]


def _total(sums: list[Array], k: int = 1) -> Array:
    """The sums per column from those of the blocks, of k rows taken as one."""
    total = sums[0] if len(sums) == 1 else np.add.reduce(sums, axis=0)
    return total if k == 1 else np.add.reduce(total.reshape(k, -1), axis=0)


def _fits(x: Array) -> bool:
    return type(x) is np.ndarray and x.dtype.char in "fd"


class Columns:
    """Normalisation of each channel, where the channels are next to each other in memory."""

    @staticmethod
    def fits(x: Array) -> bool:
        """Whether `x` is stored so."""
        return _fits(x) and _channels_last(x).flags.c_contiguous

    @staticmethod
    def forward(x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, Array, Array, Array]:
        """y, and mean, variance and 1/√(variance + eps) of the channels."""
        wide, rows, k, char = _as_matrix(x)
        y = np.empty_like(wide)
        blocks = _blocks(_COLUMN_BLOCK, wide, y)
        mean = _total([full(len(part), 1 / rows, char) @ part for part, _ in blocks], k)
        repeated = _repeat(mean, k)
        squares = []
        for part, centred in blocks:
            np.subtract(part, repeated, out=centred)
            squares.append(np.einsum("ij,ij->j", centred, centred))
        variance = _total(squares, k)
        variance /= rows
        r = variance + eps
        np.sqrt(r, out=r)
        np.divide(1, r, out=r)
        scale, shift = _repeat(weight * r, k), _repeat(bias, k)
        for _, part in blocks:
            part *= scale
            part += shift
        return _as_before(y, x), mean, variance, r

    @staticmethod
    def backward(
        x: Array, weight: Array, out_grad: Array, mean: Array, r: Array, need_x: bool
    ) -> tuple[Array | None, Array, Array]:
        """The gradients of x (if needed), weight and bias."""
        wide, rows, k, _ = _as_matrix(x)
        g = np.ascontiguousarray(_channels_last(out_grad)).reshape(wide.shape)
        to_x = np.empty_like(wide)
        blocks = _blocks(_COLUMN_BLOCK, wide, g, to_x)
        repeated = _repeat(mean, k)
        sums, dots = [], []
        for part, gradient, centred in blocks:
            np.subtract(part, repeated, out=centred)
            dots.append(np.einsum("ij,ij->j", centred, gradient))
            sums.append(sum_of_rows(gradient))
        to_bias, to_weight = _total(sums, k), _total(dots, k)
        to_weight *= r
        if not need_x:
            return None, to_weight, to_bias
        # γ·r·(ȳ − ⟨ȳ⟩ − x̂·⟨ȳ·x̂⟩), made of x − μ in place
        slope, offset, scale = _repeat(to_weight * (r / -rows), k), _repeat(to_bias / rows, k), _repeat(weight * r, k)
        for _, gradient, part in blocks:
            part *= slope
            part += gradient
            part -= offset
            part *= scale
        return _as_before(to_x, x), to_weight, to_bias


def _channels_last(x: Array) -> Array:
    return x if x.ndim == 2 else np.moveaxis(x, 1, -1)


def _as_matrix(x: Array) -> tuple[Array, int, int, str]:
    """`x` as a matrix with the channels next to each other, its rows, how many are joined, and its dtype."""
    last = _channels_last(x)
    channels = last.shape[-1]
    rows = last.size // channels
    k = _joined(rows, channels)
    return last.reshape(-1, k * channels), rows, k, x.dtype.char


def _as_before(matrix: Array, x: Array) -> Array:
    if x.ndim == 2:
        return matrix.reshape(x.shape)
    return np.moveaxis(matrix.reshape(x.shape[0], *x.shape[2:], x.shape[1]), -1, 1)


class Rows:
    """Normalisation over the last axis."""

    @staticmethod
    def fits(x: Array) -> bool:
        """Whether `x` is an array for this."""
        return _fits(x)

    @staticmethod
    def forward(x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, Array, Array, Array]:
        """y, and mean, variance and 1/√(variance + eps) of the rows."""
        size = x.shape[-1]
        rows = np.ascontiguousarray(x).reshape(-1, size)
        y = np.empty_like(rows)
        statistics = np.empty((3, len(rows), 1), dtype=x.dtype)
        share = full(size, 1 / size, x.dtype.char)
        for part, out, mean, variance, r in _blocks(_ROW_BLOCK, rows, y, *statistics):
            np.matmul(part, share, out=mean[:, 0])
            np.subtract(part, mean, out=out)
            np.einsum("ij,ij->i", out, out, out=variance[:, 0])
            variance /= size
            np.add(variance, eps, out=r)
            np.sqrt(r, out=r)
            np.divide(1, r, out=r)
            out *= r
            out *= weight
            out += bias
        mean, variance, r = statistics
        return y.reshape(x.shape), mean, variance, r

    @staticmethod
    def backward(
        x: Array, weight: Array, out_grad: Array, mean: Array, r: Array, need_x: bool
    ) -> tuple[Array | None, Array, Array]:
        """The gradients of x (if needed), weight and bias."""
        size = x.shape[-1]
        rows = np.ascontiguousarray(x).reshape(-1, size)
        g = np.ascontiguousarray(out_grad).reshape(-1, size)
        to_x = np.empty_like(rows)
        scratch = np.empty_like(rows[: max(1, _ROW_BLOCK // size)])
        share = weight / size
        sums, dots = [], []
        for part, gradient, out, m, factor in _blocks(_ROW_BLOCK, rows, g, to_x, mean, r):
            product = scratch[: len(part)]
            np.subtract(part, m, out=out)
            np.multiply(out, gradient, out=product)
            dots.append(factor[:, 0] @ product)
            sums.append(sum_of_rows(gradient))
            if not need_x:
                continue
            # r·(k − ⟨k⟩ − x̂·⟨k·x̂⟩) with k = γ·ȳ, made of x − μ in place
            slope = (product @ share)[:, None]
            slope *= factor
            slope *= factor
            np.multiply(gradient, weight, out=product)
            out *= slope
            np.subtract(product, out, out=out)
            out -= (gradient @ share)[:, None]
            out *= factor
        return to_x.reshape(x.shape) if need_x else None, _total(dots), _total(sums)
