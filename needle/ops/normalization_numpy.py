"""Normalisation of the columns or the rows of a matrix in NumPy, with every pass in the cache.

NumPy's own cost per row of a broadcast (about 40 ns) outweighs the arithmetic of short rows. So where a vector is
spread over the rows of an (M, D) matrix, k rows are taken as one row of k·D elements and the vector is repeated k
times; k divides M, so no rest is left. Sums are products with vectors of ones, which BLAS does several times faster
than `numpy.sum`; they are taken block by block and the blocks' sums added up, so rounding errors hardly grow with M.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from ..backend import Array

_BLOCK = 1 << 14  # elements of a block: a few arrays of that size fit into the second-level cache
_WIDE = 1 << 10  # elements of a row from which the cost per row does not matter


@lru_cache(maxsize=256)
def _plan(rows: int, columns: int) -> tuple[int, int]:
    """How many rows to take as one (k), and how many of these to take as a block."""
    most = max(1, min(rows, _WIDE // max(columns, 1)))
    k = next(k for k in range(most, 0, -1) if rows % k == 0)
    return k, max(1, _BLOCK // max(k * columns, 1))


def _blocks(rows: int, step: int) -> Iterator[tuple[int, slice]]:
    return ((i, slice(start, start + step)) for i, start in enumerate(range(0, rows, step)))


def _repeat(vector: Array, k: int) -> Array:
    if k == 1:
        return vector
    repeated = np.empty((k, vector.size), dtype=vector.dtype)
    repeated[:] = vector
    return repeated.reshape(-1)


def _fold(sums: Array, k: int) -> Array:
    """The sums per column from those of the blocks, of k rows taken as one."""
    total = sums[0] if len(sums) == 1 else np.add.reduce(sums, axis=0)
    return total if k == 1 else np.add.reduce(total.reshape(k, -1), axis=0)


def _fits(x: Array) -> bool:
    return type(x) is np.ndarray and x.dtype.char in "fd"


class Columns:
    """Normalisation of each channel, where the channels are next to each other in memory."""

    @staticmethod
    def fits(x: Array) -> bool:
        return _fits(x) and _channels_last(x).flags.c_contiguous

    @staticmethod
    def forward(x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, Array, Array, Array]:
        """y, and mean, variance and 1/√(variance + eps) of the channels."""
        last = _channels_last(x)
        channels = last.shape[-1]
        rows = last.size // channels
        k, step = _plan(rows, channels)
        wide = last.reshape(-1, k * channels)
        blocks = list(_blocks(len(wide), step))
        ones = np.ones(min(step, len(wide)), dtype=x.dtype)
        sums = np.empty((len(blocks), k * channels), dtype=x.dtype)
        for i, block in blocks:
            part = wide[block]
            np.matmul(ones[: len(part)], part, out=sums[i])
        mean = _fold(sums, k)
        mean = mean / rows
        y = np.empty_like(wide)
        repeated = _repeat(mean, k)
        for i, block in blocks:
            part = y[block]
            np.subtract(wide[block], repeated, out=part)
            np.einsum("ij,ij->j", part, part, out=sums[i])
        variance = _fold(sums, k) / rows
        r = 1 / np.sqrt(variance + eps)
        scale, shift = _repeat(weight * r, k), _repeat(bias, k)
        for _, block in blocks:
            part = y[block]
            part *= scale
            part += shift
        return _channels_second(y.reshape(last.shape)), mean, variance, r

    @staticmethod
    def backward(
        x: Array, weight: Array, out_grad: Array, mean: Array, r: Array, need_x: bool
    ) -> tuple[Array | None, Array, Array]:
        """The gradients of x (if needed), weight and bias."""
        last = _channels_last(x)
        channels = last.shape[-1]
        rows = last.size // channels
        k, step = _plan(rows, channels)
        wide = last.reshape(-1, k * channels)
        g = np.ascontiguousarray(_channels_last(out_grad)).reshape(wide.shape)
        blocks = list(_blocks(len(wide), step))
        ones = np.ones(min(step, len(wide)), dtype=x.dtype)
        sums, dots = (np.empty((len(blocks), k * channels), dtype=x.dtype) for _ in range(2))
        to_x = np.empty_like(wide)
        repeated = _repeat(mean, k)
        for i, block in blocks:
            part, gradient = to_x[block], g[block]
            np.subtract(wide[block], repeated, out=part)
            np.einsum("ij,ij->j", part, gradient, out=dots[i])
            np.matmul(ones[: len(part)], gradient, out=sums[i])
        to_bias, to_weight = _fold(sums, k), _fold(dots, k) * r
        if not need_x:
            return None, to_weight, to_bias
        # γ·r·(ȳ − ⟨ȳ⟩ − x̂·⟨ȳ·x̂⟩), made of x − μ in place
        slope, offset, scale = (_repeat(v, k) for v in (to_weight * r / -rows, to_bias / rows, weight * r))
        for _, block in blocks:
            part = to_x[block]
            part *= slope
            part += g[block]
            part -= offset
            part *= scale
        return _channels_second(to_x.reshape(last.shape)), to_weight, to_bias


def _channels_last(x: Array) -> Array:
    return x if x.ndim == 2 else np.moveaxis(x, 1, -1)


def _channels_second(x: Array) -> Array:
    return x if x.ndim == 2 else np.moveaxis(x, -1, 1)


class Rows:
    """Normalisation over the last axis."""

    @staticmethod
    def fits(x: Array) -> bool:
        return _fits(x)

    @staticmethod
    def forward(x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, Array, Array, Array]:
        """y, and mean, variance and 1/√(variance + eps) of the rows."""
        size = x.shape[-1]
        rows = np.ascontiguousarray(x).reshape(-1, size)
        k, step = _plan(len(rows), size)
        y = np.empty_like(rows)
        wide = y.reshape(-1, k * size)
        mean, variance, r = np.empty((3, len(rows)), dtype=x.dtype)
        share = np.full(size, 1 / size, dtype=x.dtype)
        scale, shift = _repeat(weight, k), _repeat(bias, k)
        for i, block in _blocks(len(rows), step * k):
            part = y[block]
            np.matmul(rows[block], share, out=mean[block])
            np.subtract(rows[block], mean[block, None], out=part)
            np.einsum("ij,ij->i", part, part, out=variance[block])
            variance[block] /= size
            np.divide(1, np.sqrt(variance[block] + eps), out=r[block])
            part *= r[block, None]
            part = wide[i * step : (i + 1) * step]
            part *= scale
            part += shift
        return y.reshape(x.shape), mean, variance, r

    @staticmethod
    def backward(
        x: Array, weight: Array, out_grad: Array, mean: Array, r: Array, need_x: bool
    ) -> tuple[Array | None, Array, Array]:
        """The gradients of x (if needed), weight and bias."""
        size = x.shape[-1]
        rows = np.ascontiguousarray(x).reshape(-1, size)
        g = np.ascontiguousarray(out_grad).reshape(-1, size)
        k, step = _plan(len(rows), size)
        to_x = np.empty_like(rows)
        wide = g.reshape(-1, k * size)
        blocks = list(_blocks(len(rows), step * k))
        scratch = np.empty((min(step * k, len(rows)), size), dtype=x.dtype)
        ones = np.ones(len(scratch), dtype=x.dtype)
        sums, dots = (np.empty((len(blocks), size), dtype=x.dtype) for _ in range(2))
        share = weight / size
        scale = _repeat(weight, k)
        for i, block in blocks:
            part, gradient, factor = to_x[block], g[block], r[block]
            product = scratch[: len(part)]
            np.subtract(rows[block], mean[block, None], out=part)
            np.multiply(part, gradient, out=product)
            np.matmul(factor, product, out=dots[i])
            np.matmul(ones[: len(part)], gradient, out=sums[i])
            if not need_x:
                continue
            # r·(k − ⟨k⟩ − x̂·⟨k·x̂⟩) with k = γ·ȳ, made of x − μ in place
            part *= (product @ share * (factor * -factor))[:, None]
            np.multiply(wide[i * step : (i + 1) * step], scale, out=product.reshape(-1, k * size))
            part += product
            part -= (gradient @ share)[:, None]
            part *= factor[:, None]
        to_weight, to_bias = _fold(dots, 1), _fold(sums, 1)
        return to_x.reshape(x.shape) if need_x else None, to_weight, to_bias
