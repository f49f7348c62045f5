"""Batch and layer normalisation: one kernel forward; backward one, and one more for a layer's parameters.

Where a layer has many rows, these are shared out among blocks, and the shares' sums are added up in the end.
"""

from __future__ import annotations

import math

from ..backend import Array, Shape, array_module
from . import contiguous, launch

_ROWS = 256  # of a block's share at least, where the rows of a layer's parameters' gradient are shared out
_SHARES = 64  # at most: with 32 columns each, enough blocks to fill a GPU


def _layout(shape: Shape, channels: bool) -> tuple[tuple, tuple, tuple]:
    """How groups of elements that share a mean lie in memory (see normalization.cu), and the launch that suits them."""
    if channels:
        inner = math.prod(shape[2:])
        layout = (shape[1], shape[0] * inner, inner, shape[1] * inner, inner, 1)
        block = (32, 8) if inner == 1 else (1, 256)
    else:
        layout = (math.prod(shape[:-1]), shape[-1], shape[-1], 0, shape[-1], 0)
        block = (1, 32 if shape[-1] <= 256 else 256)
    return layout, (-(-layout[0] // block[0]),), block


def forward(x: Array, weight: Array, bias: Array, eps: float, channels: bool) -> tuple[Array, Array, Array, Array]:
    """y = γ·x̂ + β, and the means, variances and factors r, flat.

    Parameters
    ----------
    x, weight, bias : array
        As `needle.ops.batch_norm` and `layer_norm` take them.
    eps : float
    channels : bool
        Whether a mean is a channel's (axis 1), or a row's (over the last axis).
    """
    xp = array_module(x)
    layout, grid, block = _layout(x.shape, channels)
    y, (mean, variance, r) = xp.empty(x.shape, x.dtype), [xp.empty(layout[0], x.dtype) for _ in range(3)]
    args = (contiguous(x), contiguous(weight), contiguous(bias), y, mean, variance, r, *layout, float(eps))
    shared = block[0] * block[1] * x.itemsize
    launch("normalize", grid, block, *args, dtype=x.dtype, shared_memory=shared)
    return y, mean, variance, r


def backward(
    x: Array, weight: Array, out_grad: Array, mean: Array, r: Array, channels: bool
) -> tuple[Array, Array, Array]:
    """x̄, γ̄ and β̄ from the statistics that `forward` gave."""
    xp = array_module(x)
    layout, grid, block = _layout(x.shape, channels)
    x, out_grad = contiguous(x), contiguous(out_grad)
    shares = 1 if channels else max(1, min(layout[0] // _ROWS, _SHARES))
    to_x, parameters = xp.empty(x.shape, x.dtype), weight.shape if shares == 1 else (shares, *weight.shape)
    to_weight, to_bias = xp.empty(parameters, x.dtype), xp.empty(parameters, x.dtype)
    args = (x, contiguous(weight), out_grad, mean, r, to_x, to_weight, to_bias, *layout)
    shared = block[0] * block[1] * x.itemsize
    launch("normalize_gradient", grid, block, *args, dtype=x.dtype, shared_memory=shared)
    if not channels:
        rows, columns = layout[:2]
        args = (x, out_grad, mean, r, to_weight, to_bias, rows, columns)
        grid, block = (-(-columns // 32), shares), (32, 8)
        launch("row_parameters_gradient", grid, block, *args, dtype=x.dtype, shared_memory=256 * x.itemsize)
    return (to_x, to_weight, to_bias) if shares == 1 else (to_x, to_weight.sum(axis=0), to_bias.sum(axis=0))
