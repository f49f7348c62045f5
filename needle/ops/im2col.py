"""Convolution on plain arrays: images turned into matrices, block by block, and one matrix product per block.

Row (b, y, x) of the im2col matrix of an image batch holds the window that output pixel (b, y, x) sees, so that a
convolution is this matrix times the kernel's. A strided view shows the windows without copying; the copy that BLAS
needs is made for a few rows of output at a time, into one buffer that stays in cache, instead of for the whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..backend import Array, Shape, array_module

Pair = tuple[int, int]

#: Bytes of im2col matrix made at a time. On a CPU it shall stay in cache; on a GPU few large products are better.
BLOCK_BYTES = 1 << 20
GPU_BLOCK_BYTES = 1 << 28


def output_size(size: int, kernel: int, stride: int, padding: int) -> int:
    """How many windows fit along an axis of `size` with `padding` on both sides."""
    return (size + 2 * padding - kernel) // stride + 1


def convolve(x: Array, w: Array, stride: int, padding: Pair, bias: Array | None = None) -> Array:
    """The cross-correlation of images (N, H, W, I) with a kernel (K, M, I, O), plus a bias (O,): (N, H', W', O)."""
    xp = array_module(x)
    sizes = [output_size(x.shape[i + 1], w.shape[i], stride, padding[i]) for i in (0, 1)]
    channels = w.shape[3]
    matrix = w.reshape(-1, channels)
    out = xp.empty((x.shape[0], *sizes, channels), dtype=xp.result_type(x, w))
    for images, rows, columns in _blocks(x, w.shape[:2], stride, padding):
        part = out[images, rows].reshape(-1, channels)  # a view: the block is contiguous
        xp.matmul(columns, matrix, out=part)
        if bias is not None:
            part += bias
    return out


def kernel_gradient(x: Array, g: Array, stride: int, padding: Pair, shape: Shape) -> Array:
    """The adjoint of `convolve` in its kernel, applied to g (N, H', W', O): the sum of windowsᵀ·g, of `shape`."""
    xp = array_module(x)
    channels = shape[3]
    total = xp.zeros((int(np.prod(shape[:3])), channels), dtype=xp.result_type(x, g))
    part = xp.empty_like(total)
    for images, rows, columns in _blocks(x, shape[:2], stride, padding):
        xp.matmul(columns.T, g[images, rows].reshape(-1, channels), out=part)
        total += part
    return total.reshape(shape)


def image_gradient(g: Array, w: Array, stride: int, padding: Pair, shape: Shape) -> Array:
    """The adjoint of `convolve` in its images, applied to g (N, H', W', O): each window gets its row of g·wᵀ added.

    With stride 1 that is a convolution again, of g with the kernel turned by 180° and its channels swapped.
    """
    outer = (w.shape[0] - 1 - padding[0], w.shape[1] - 1 - padding[1])
    if stride == 1 and min(outer) >= 0:
        return convolve(g, w[::-1, ::-1].swapaxes(2, 3), 1, outer)
    return _scatter_windows(g, w, stride, padding, shape)


def gradients(
    x: Array, w: Array, g: Array, stride: int, padding: Pair, needs: tuple[bool, ...]
) -> tuple[Array | None, ...]:
    """What of `image_gradient`, `kernel_gradient` and, third, the bias's gradient is needed, with fewer passes.

    With stride 1 both products can be had from the windows of g: the images' gradient is windows·w', w' the kernel
    turned by 180°, and the turned kernel's is windowsᵀ·x.
    """
    need_x, need_w = needs[:2]
    to_bias = [_channel_sums(g) if need else None for need in needs[2:]]
    outer = (w.shape[0] - 1 - padding[0], w.shape[1] - 1 - padding[1])
    if not (need_x and need_w and stride == 1 and min(outer) >= 0):
        to_x = image_gradient(g, w, stride, padding, x.shape) if need_x else None
        return to_x, kernel_gradient(x, g, stride, padding, w.shape) if need_w else None, *to_bias
    xp, channels = array_module(x), x.shape[3]
    turned = w[::-1, ::-1].swapaxes(2, 3)
    matrix = turned.reshape(-1, channels)
    to_x = xp.empty(x.shape, dtype=xp.result_type(g, w))
    total = xp.zeros(matrix.shape, dtype=xp.result_type(x, g))
    part = xp.empty_like(total)
    for images, rows, columns in _blocks(g, w.shape[:2], 1, outer):
        xp.matmul(columns, matrix, out=to_x[images, rows].reshape(-1, channels))
        xp.matmul(columns.T, x[images, rows].reshape(-1, channels), out=part)
        total += part
    return to_x, total.reshape(turned.shape)[::-1, ::-1].swapaxes(2, 3), *to_bias


def _channel_sums(g: Array) -> Array:
    """Σ over all pixels, by products with ones, image by image: rounding errors hardly grow with the batch."""
    xp = array_module(g)
    n, rows, columns, channels = g.shape
    count = _per_block(xp, g[:1].nbytes, n)
    ones = xp.ones(count * rows * columns, dtype=g.dtype)
    total = xp.zeros(channels, dtype=g.dtype)
    for start in range(0, n, count):
        pixels = g[start : start + count].reshape(-1, channels)
        total += ones[: len(pixels)] @ pixels
    return total


def _scatter_windows(g: Array, w: Array, stride: int, padding: Pair, shape: Shape) -> Array:
    xp = array_module(g)
    (n, height, width, _), (top, left) = shape, padding
    _, rows, columns, channels = g.shape
    matrix = w.reshape(-1, channels).T
    out = xp.zeros((n, height + 2 * top, width + 2 * left, shape[3]), dtype=xp.result_type(g, w))
    count = _per_block(xp, rows * columns * matrix.shape[1] * out.itemsize, n)
    for start in range(0, n, count):
        block = g[start : start + count].reshape(-1, channels) @ matrix
        windows = block.reshape(-1, rows, columns, *w.shape[:3])
        for i in range(w.shape[0]):
            for j in range(w.shape[1]):
                seen = slice(i, i + rows * stride, stride), slice(j, j + columns * stride, stride)
                part = out[start : start + count, seen[0], seen[1]]
                part += windows[:, :, :, i, j]
    return out[:, top : top + height, left : left + width]


def _per_block(xp: Any, item_bytes: int, items: int) -> int:
    limit = BLOCK_BYTES if xp is np else GPU_BLOCK_BYTES
    return max(1, min(items, limit // max(item_bytes, 1)))


def _blocks(x: Array, kernel: Shape, stride: int, padding: Pair) -> Iterator[tuple[slice, slice, Array]]:
    """The im2col matrix of x (N, H, W, C) by blocks: the images, the rows of output, and (n·rows·W', K·M·C).

    A block is whole images, or part of one. Its matrix is overwritten by the next.
    """
    xp = array_module(x)
    (n, height, width, channels), (k, m), (top, left) = x.shape, kernel, padding
    rows, columns = output_size(height, k, stride, top), output_size(width, m, stride, left)
    row_bytes = columns * k * m * channels * x.itemsize
    images = _per_block(xp, rows * row_bytes, n)
    step = _per_block(xp, row_bytes, rows) if images == 1 else rows

    padded = xp.zeros((images, height + 2 * top, width + 2 * left, channels), dtype=x.dtype)
    inside = padded[:, top : top + height, left : left + width]
    image, line, pixel, item = padded.strides
    # The pixels of a window's row are neighbours in memory: one axis of M·C elements, which is copied in long runs.
    windows = xp.lib.stride_tricks.as_strided(
        padded,
        (images, rows, columns, k, m * channels),
        (image, line * stride, pixel * stride, line, item),
    )
    buffer = xp.empty((images, step, columns, k, m * channels), dtype=x.dtype)
    for start in range(0, n, images):
        count = min(images, n - start)
        inside[:count] = x[start : start + count]
        for row in range(0, rows, step):
            part = buffer[:count, : min(step, rows - row)]
            part[...] = windows[:count, row : row + step]
            yield slice(start, start + count), slice(row, row + step), part.reshape(-1, k * m * channels)
