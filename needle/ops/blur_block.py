"""Blocks of columns: how the adaptive blur goes through NumPy arrays, and the scratch that it does so with.

See `blur_numpy` for why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .blur_scan import RADIUS_LIMIT

EXACT = 2**24  # float32 holds every integer below
_BLOCK = 24_000  # elements of a block: a float64 array of it takes 192 KB, and the scratch together 2 MB
_FEWEST = 16  # columns of a block, however long they are: a cache line of float32
_LINE = 64  # bytes

Arrays = Mapping[str, tuple[int, Any]]  # name: (rows beyond K, dtype)


def columns_of(a: np.ndarray, axis: int) -> np.ndarray:
    """`a` as [K, outer, inner], K the blurred axis: a view wherever strides allow one (always for a new array)."""
    outer = int(np.prod(a.shape[:axis]))
    return a.reshape(outer, a.shape[axis], -1).swapaxes(0, 1)


def cuts(shape: tuple[int, ...]) -> Iterator[tuple]:
    """Blocks of columns, of even width where possible."""
    size, outer, inner = shape
    most = max(_FEWEST, _BLOCK // size)
    if inner >= most or outer == 1:
        width = -(-inner // -(-inner // most))
        width += width % 2
        for o in range(outer):
            for i in range(0, inner, width):
                yield np.s_[:, o : o + 1, i : i + width]
    else:
        height = max(1, most // inner)
        for o in range(0, outer, height):
            yield np.s_[:, o : o + height]


def prefix_sums(a: np.ndarray) -> None:
    """Sum up the rows of `a` in place."""
    if a.shape[1] % 2 == 0:
        a = a.view(np.complex128)
    np.cumsum(a, axis=0, out=a)


class Block:
    """Scratch for one block of columns, and what the radii say there."""

    seed = False  # whether derivatives are the seed's; at an integer radius those are from the left

    radius: np.ndarray  # m, then m − right
    floor: np.ndarray
    fraction: np.ndarray
    left: np.ndarray  # m − left
    t: np.ndarray
    flat: np.ndarray  # flat indices, and the same as counted from a base, in `count`
    count: np.ndarray
    int32: np.ndarray
    left_index: np.ndarray
    right_index: np.ndarray
    below: np.ndarray  # radius < 1
    identity: np.ndarray  # all bits set there
    blurred: np.ndarray  # all bits set elsewhere
    on_grid: np.ndarray
    on_grid_slope: np.ndarray

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, lowest: float, highest: float, more: Arrays):
        self.shape = shape
        self.size, self.width = shape[0], shape[1] * shape[2]
        self.narrow = dtype
        self.some_identity, self.some_huge = lowest < 1, highest > RADIUS_LIMIT
        index = np.dtype(np.float32 if dtype == np.float32 and (self.size + 1) * self.width < EXACT else np.float64)
        arrays: dict[str, tuple[int, Any]] = dict.fromkeys(("radius", "floor", "fraction", "left", "t"), (0, dtype))
        arrays |= {"flat": (0, index), "count": (0, index), "left_index": (0, np.intp), "right_index": (0, np.intp)}
        if index == np.float32:
            arrays["int32"] = (0, np.int32)
        if self.some_identity:
            bits = np.dtype(f"i{dtype.itemsize}")
            arrays |= {"below": (0, bool), "identity": (0, bits), "blurred": (0, bits)}
        self._allocate(arrays | dict(more))
        self.positions = np.arange(self.size, dtype=dtype)[:, None]
        self.flat[...] = np.arange(self.size * self.width, dtype=index).reshape(self.size, self.width)

    def _allocate(self, arrays: Arrays) -> None:
        """Make scratch arrays as attributes, in one piece of memory.

        Arrays a whole number of pages apart slow each other down: each begins an odd number of cache lines further.
        """
        at, places = 0, {}
        for name, (extra, dtype) in arrays.items():
            places[name] = at
            at += -(-(self.size + extra) * self.width * np.dtype(dtype).itemsize // _LINE) * _LINE + 11 * _LINE
        memory = np.empty(at // 8).view(np.uint8)
        for name, (extra, dtype) in arrays.items():
            rows, kind = self.size + extra, np.dtype(dtype)
            piece = memory[places[name] : places[name] + rows * self.width * kind.itemsize]
            setattr(self, name, piece.view(kind).reshape(rows, self.width))

    def _index(self, out: np.ndarray) -> None:
        """`count` as integers; float32 to int32 to int64 is quicker than at once."""
        if self.count.dtype == np.float64:
            np.copyto(out, self.count, casting="unsafe")
        else:
            np.copyto(self.int32, self.count, casting="unsafe")
            np.copyto(out, self.int32)

    def measure(self, radius: np.ndarray) -> None:
        """Set radius, floor, fraction, m−left (in `left`), m−right (in `radius`) and the two bases."""
        m, f, t = self.radius, self.floor, self.t
        np.copyto(m.reshape(self.shape), radius)
        if self.some_identity:
            np.less(m, 1, self.below)
            np.copyto(self.identity, self.below)
            np.negative(self.identity, self.identity)  # all bits set where the radius is below 1
            np.invert(self.identity, self.blurred)
            np.maximum(m, 1, out=m)
        if self.some_huge:
            np.minimum(m, RADIUS_LIMIT, out=m)
        if self.seed:
            np.ceil(m, f)
            np.subtract(f, 1, f)
        else:
            np.floor(m, f)
        np.subtract(m, f, self.fraction)
        np.minimum(f, self.positions, out=t)
        np.subtract(m, t, self.left)  # exact: both are multiples of the last place of m
        np.multiply(t, self.width, self.count)
        np.subtract(self.flat, self.count, self.count)
        self._index(self.left_index)
        np.minimum(f, self.positions[::-1], out=t)
        np.subtract(m, t, m)
        np.multiply(t, self.width, self.count)
        np.add(self.flat, self.count, self.count)
        self._index(self.right_index)

    def keep(self, a: np.ndarray, mask: np.ndarray) -> None:
        """Zero `a` where `mask` has no bits."""
        bits = a.view(mask.dtype)
        np.bitwise_and(bits, mask, bits)

    def weigh_grid(self, mass: np.ndarray, slope: np.ndarray, u: np.ndarray, v: np.ndarray) -> None:
        """Set the part of the mass that falls on the grid, m·e − (l² + r² + l + r)/2, and its derivative e = 1 + l + r.

        l and r are how far a source reaches on either side; `u` and `v` are overwritten.
        """
        f, t = self.floor, self.t
        np.minimum(f, self.positions, out=t)
        np.copyto(slope, t)
        np.multiply(slope, slope, u)
        np.minimum(f, self.positions[::-1], out=t)
        np.copyto(v, t)
        np.add(slope, v, slope)
        np.multiply(v, v, v)
        np.add(u, v, u)
        np.add(u, slope, u)
        np.multiply(u, 0.5, u)
        np.add(slope, 1, slope)
        np.copyto(v, f)
        np.copyto(mass, self.fraction)
        np.add(mass, v, mass)
        np.multiply(mass, slope, mass)
        np.subtract(mass, u, mass)
