"""Scatter-add with the same bits in every run: sorted, where cupy's own adds in whatever order threads arrive."""

from __future__ import annotations

from typing import Any

from ..backend import Array, array_module
from . import contiguous, launch

_THREADS = 256
_BLOCKS = 4096  # at most; threads go on with what lies beyond


def add(target: Array, index: Any, values: Array) -> None:
    """``target[index] += values`` for a contiguous `target` of float32 or float64."""
    xp = array_module(target)
    places = xp.arange(target.size, dtype="int64").reshape(target.shape)[index]
    values = xp.broadcast_to(values, places.shape)
    places, values = contiguous(places).reshape(-1), contiguous(values.astype(target.dtype, copy=False)).reshape(-1)
    if not places.size:
        return
    order = xp.argsort(places).astype("int64", copy=False)
    blocks = max(1, min(-(-places.size // _THREADS), _BLOCKS))
    args = (order, places, values, target, places.size)
    launch("scatter_add", (blocks,), (_THREADS,), *args, dtype=target.dtype)
