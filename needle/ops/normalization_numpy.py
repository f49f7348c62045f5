"""Normalisation of the columns or the rows of a matrix in NumPy, in as few passes as its functions allow.

Sums over rows and over columns are products with vectors of ones, which BLAS does several times faster than
`numpy.sum`. Large matrices are gone through in blocks that stay in the cache from one pass to the next; the blocks'
sums are added up in the end, so that rounding errors hardly grow with the number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def _total(sums: Sequence[Array], k: int = 1) -> Array:
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
        if x.ndim == 2 and x.size < _LARGE:
            return _small_forward(x, weight, bias, eps)
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
        if x.ndim == 2 and x.size < _LARGE:
            return _small_backward(x, weight, out_grad, mean, r, need_x)
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


def _small_forward(x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, Array, Array, Array]:
    """The same where neither blocks nor joined rows help, and every call of a function counts."""
    rows = len(x)
    mean = full(rows, 1 / rows, x.dtype.char) @ x
    y = x - mean
    variance = np.einsum("ij,ij->j", y, y)
    variance /= rows
    r = variance + eps
    np.sqrt(r, out=r)
    np.divide(1, r, out=r)
    y *= weight * r
    y += bias
    return y, mean, variance, r


def _small_backward(
    x: Array, weight: Array, out_grad: Array, mean: Array, r: Array, need_x: bool
) -> tuple[Array | None, Array, Array]:
    rows = len(x)
    to_x = x - mean
    to_weight = np.einsum("ij,ij->j", to_x, out_grad)
    to_weight *= r
    to_bias = sum_of_rows(out_grad)
    if not need_x:
        return None, to_weight, to_bias
    to_x *= to_weight * (r / -rows)
    to_x += out_grad
    to_x -= to_bias / rows
    to_x *= weight * r
    return to_x, to_weight, to_bias


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
        rows = np.ascontiguousarray(x).reshape(-1, x.shape[-1])
        y = np.empty_like(rows)
        parts = [_forward_rows(part, out, weight, bias, eps) for part, out in _blocks(_ROW_BLOCK, rows, y)]
        mean, variance, r = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts))
        return y.reshape(x.shape), mean, variance, r

    @staticmethod
    def backward(
        x: Array, weight: Array, out_grad: Array, mean: Array, r: Array, need_x: bool
    ) -> tuple[Array | None, Array, Array]:
        """The gradients of x (if needed), weight and bias."""
        rows, g = (np.ascontiguousarray(a).reshape(-1, x.shape[-1]) for a in (x, out_grad))
        to_x = np.empty_like(rows)
        share = weight / x.shape[-1]
        blocks = _blocks(_ROW_BLOCK, rows, g, to_x, mean, r)
        parts = [_backward_rows(a, b, c, m, f, weight, share, need_x) for a, b, c, m, f in blocks]
        dots, sums = zip(*parts)
        return to_x.reshape(x.shape) if need_x else None, _total(dots), _total(sums)


def _forward_rows(x: Array, y: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, Array, Array]:
    """Put the normalised rows into y; the statistics are columns."""
    size = x.shape[1]
    mean = (x @ full(size, 1 / size, x.dtype.char))[:, None]
    np.subtract(x, mean, out=y)
    variance = np.einsum("ij,ij->i", y, y)[:, None]
    variance /= size
    r = variance + eps
    np.sqrt(r, out=r)
    np.divide(1, r, out=r)
    y *= r
    y *= weight
    y += bias
    return mean, variance, r


def _backward_rows(
    x: Array, g: Array, to_x: Array, mean: Array, r: Array, weight: Array, share: Array, need_x: bool
) -> tuple[Array, Array]:
    """Put the gradient of the rows into to_x; give their sums of ȳ·x̂ and of ȳ."""
    np.subtract(x, mean, out=to_x)
    product = to_x * g
    to_weight = r[:, 0] @ product
    if need_x:
        # r·(k − ⟨k⟩ − x̂·⟨k·x̂⟩) with k = γ·ȳ, made of x − μ in place
        slope = (product @ share)[:, None]
        slope *= r
        slope *= r
        to_x *= slope
        np.subtract(np.multiply(g, weight, out=product), to_x, out=to_x)
        to_x -= (g @ share)[:, None]
        to_x *= r
    return to_weight, sum_of_rows(g)
