"""Elementwise kernels: bias and ReLU in one pass, dropout in one."""

from __future__ import annotations

from ..backend import Array, array_module
from . import contiguous, launch

_THREADS = 256
_BLOCKS = 4096  # at most; threads go on with what lies beyond


def _grid(size: int) -> tuple[int]:
    return (max(1, min(-(-size // _THREADS), _BLOCKS)),)


def bias_relu(x: Array, bias: Array) -> Array:
    """max(x + bias, 0) for `x` of shape (…, n) and `bias` with n elements."""
    y = array_module(x).empty(x.shape, x.dtype)
    args = (contiguous(x), contiguous(bias), y, x.size, bias.size)
    launch("bias_relu", _grid(x.size), (_THREADS,), *args, dtype=x.dtype)
    return y


def dropout(x: Array, uniform: Array, keep: float) -> tuple[Array, Array]:
    """x·s and s, which is 1/keep where the uniform number is below `keep` and 0 elsewhere."""
    xp = array_module(x)
    y, scale = xp.empty(x.shape, x.dtype), xp.empty(x.shape, x.dtype)
    args = (contiguous(x), uniform, y, scale, x.size, float(keep))
    launch("dropout", _grid(x.size), (_THREADS,), *args, dtype=x.dtype)
    return y, scale


def blend(a: Array, b: Array, share: float) -> Array:
    """(1 − share)·a + share·b, for arrays of one shape."""
    y = array_module(a).empty(a.shape, a.dtype)
    args = (contiguous(a), contiguous(b), y, a.size, float(share))
    launch("blend", _grid(a.size), (_THREADS,), *args, dtype=a.dtype)
    return y
