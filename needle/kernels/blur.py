"""The adaptive blur and its adjoint, one kernel each, with a column's sums in shared memory."""

from __future__ import annotations

import functools
import math
from types import ModuleType

from ..backend import Array, Device, array_module, device_of
from . import contiguous, fit, launch, shared_memory_limit

_EDGES = {"drop": 0, "return": 1, "renorm": 2}
_COLUMNS = 4  # of a block: enough for whole sectors of memory, few enough to fill a GPU


def fits(values: Array, radius: Array, axis: int) -> bool:
    """Whether the kernels take these arrays (see `needle.kernels.fit`), and a column fits into shared memory."""
    if not fit(values, radius) or not values.size:
        return False
    return _shared_memory(1, values.shape[axis]) <= _limit(array_module(values), device_of(values))


def spread(x: Array, radius: Array, axis: int, edge: str) -> Array:
    """W·x, as `needle.ops.blur_scan.spread`. The column of a radius that is NaN becomes NaN."""
    y = array_module(x).empty(x.shape, x.dtype)
    args = (contiguous(x), contiguous(radius), y, *_around(x, axis), _EDGES[edge])
    _launch("blur_spread", x, axis, args)
    return y


def gather(g: Array, radius: Array, axis: int, edge: str, radius_grad: str) -> tuple[Array, Array]:
    """Wᵀ·g and Dᵀ·g, as `needle.ops.blur_scan.gather`."""
    xp = array_module(g)
    value, slope = xp.empty(g.shape, g.dtype), xp.empty(g.shape, g.dtype)
    seed = int(radius_grad == "seed" and edge != "renorm")
    args = (contiguous(g), contiguous(radius), value, slope, *_around(g, axis), _EDGES[edge], seed)
    _launch("blur_gather", g, axis, args)
    return value, slope


def _around(values: Array, axis: int) -> tuple[int, int, int]:
    """The sizes of [outer, K, inner]."""
    return math.prod(values.shape[:axis]), values.shape[axis], math.prod(values.shape[axis + 1 :])


def _launch(name: str, values: Array, axis: int, args: tuple) -> None:
    outer, size, inner = _around(values, axis)
    limit, columns = _limit(array_module(values), device_of(values)), _COLUMNS
    while columns > 1 and (_shared_memory(columns, size) > limit or columns // 2 >= outer * inner):
        columns //= 2
    grid, block = (-(-outer * inner // columns),), (32 * columns,)
    launch(name, grid, block, *args, dtype=values.dtype, shared_memory=_shared_memory(columns, size))


def _shared_memory(columns: int, size: int) -> int:
    """Bytes for `columns` columns: two numbers for each of K+1 rows, and 97 for each column on the way."""
    return columns * 8 * (2 * (size + 1) + 32 + 64 + 1)


@functools.cache
def _limit(xp: ModuleType, device: Device) -> int:
    with device.current():
        return shared_memory_limit(xp)
