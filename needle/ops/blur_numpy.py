"""The adaptive blur on NumPy arrays, for speed: `blur_scan` in blocks of columns that stay in the cache.

The mathematics and the names are those of `blur_scan`. What is done for speed, and why (figures per element, one core):

* A block of columns at a time, in scratch that is allocated once per call, in one piece: many pieces would be given
  back to the system and paged in again at each call, which costs more than the arithmetic.
* No ufunc mixes dtypes (a cast inside a ufunc costs several passes), and radii, distances and indices stay in float32
  where float32 holds them exactly. Sums are float64 always.
* A prefix sum down the columns is `np.cumsum` over *pairs* of columns, viewed as complex numbers: its cost is the
  latency of one addition after the other (3.9 ns), and a complex addition is two at once (1.9 ns).
* For the same reason what is scattered at one place, a bend and a jump, is scattered as one complex number.
* Sources below radius 1 are told apart by bit masks: masked assignment mispredicts a branch at every other element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .blur_block import EXACT, Block, columns_of, cuts, prefix_sums
from .blur_scan import round_to_24_bits

_LONG = 16_384  # beyond this length the mean of a cotangent costs float32 results digits


def spread(x: np.ndarray, radius: np.ndarray, axis: int, edge: str) -> np.ndarray:
    """W·x, as `blur_scan.spread`. Raises ValueError if a radius is NaN."""
    lowest, highest = _range(radius)
    y = np.empty(x.shape, np.result_type(x, radius))
    if not y.size or highest < 1:
        y[...] = x
        return y
    columns = [columns_of(a, axis) for a in (x, radius, y)]
    block = None
    for cut in cuts(columns[0].shape):
        parts = [a[cut] for a in columns]
        if block is None or block.shape != parts[0].shape:
            block = None  # before the next one takes its memory
            block = _Spread(parts[0].shape, y.dtype, edge, lowest, highest)
        block.run(*parts)
    return y


def gather(g: np.ndarray, radius: np.ndarray, axis: int, edge: str, radius_grad: str) -> tuple[np.ndarray, np.ndarray]:
    """Wᵀ·g and Dᵀ·g from one pass, as `blur_scan.gather`. Raises ValueError if a radius is NaN."""
    lowest, highest = _range(radius)
    dtype = np.result_type(g, radius)
    value, slope = np.empty(g.shape, dtype), np.empty(g.shape, dtype)
    if not g.size or highest < 1:
        value[...], slope[...] = g, 0
        return value, slope
    columns = [columns_of(a, axis) for a in (g, radius, value, slope)]
    block = None
    for cut in cuts(columns[0].shape):
        parts = [a[cut] for a in columns]
        if block is None or block.shape != parts[0].shape:
            block = None  # before the next one takes its memory
            block = _Gather(parts[0].shape, dtype, edge, radius_grad, lowest, highest)
        block.run(*parts)
    return value, slope


def _range(radius: np.ndarray) -> tuple[float, float]:
    """The least and the greatest radius."""
    if not radius.size:
        return 0.0, 0.0
    lowest, highest = float(radius.min()), float(radius.max())
    if lowest != lowest:
        where = tuple(int(i) for i in np.argwhere(np.isnan(radius))[0])
        raise ValueError(
            f"AdaptiveBlur: the radius is NaN at {where}: a radius is a number (below 1 nothing is blurred)"
        )
    return lowest, highest


class _Spread(Block):
    """W·x on a block."""

    marks: np.ndarray
    rows: np.ndarray
    a: np.ndarray
    b: np.ndarray
    own: np.ndarray

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, edge: str, lowest: float, highest: float):
        # In float32 the weights x/S are as exact as the result, and sums of numbers of 24 bits stay exact for long.
        # What the other edge modes put back has to cancel to more digits.
        single = dtype.itemsize <= 4 and edge == "drop" and shape[0] < EXACT
        narrow = np.dtype(np.float32 if single else np.float64)
        wide = np.dtype(np.float64)
        arrays: dict[str, Any] = {
            "marks": (0, np.complex128),
            "rows": (1, np.complex128),
            "a": (0, wide),
            "b": (0, wide),
        }
        self.edge = edge
        self.puts_back = lowest < 1 or edge == "return"
        if self.puts_back:
            arrays["own"] = (0, narrow)
        if edge != "drop":
            arrays |= {"on_grid": (0, wide), "on_grid_slope": (0, wide)}
        super().__init__(shape, narrow, lowest, highest, arrays)

    def run(self, x: np.ndarray, radius: np.ndarray, y: np.ndarray) -> None:
        """Set `y`."""
        self.measure(radius)
        f, mass, a, b = self.floor, self.t, self.a, self.b
        if self.edge != "drop":
            self.weigh_grid(self.on_grid, self.on_grid_slope, a, b)
        np.multiply(f, f, mass)
        np.add(f, f, f)
        np.add(f, 1, f)
        np.multiply(f, self.fraction, f)
        np.add(mass, f, mass)
        weight = f
        np.copyto(weight.reshape(self.shape), x)
        if self.puts_back:
            np.copyto(self.own, weight)
        np.divide(weight, self.on_grid if self.edge == "renorm" else mass, weight)
        if self.some_identity:
            self.keep(weight, self.blurred)
        if self.edge == "return":
            np.multiply(self.on_grid, weight, self.on_grid)
            np.subtract(self.own, self.on_grid, self.own)
        elif self.some_identity:
            self.keep(self.own, self.identity)
        np.copyto(a, weight)
        self._scatter(a, b)
        self._sum_up(a, b)
        if self.puts_back:
            np.copyto(weight, a, casting="same_kind")
            np.add(weight, self.own, weight)
            np.copyto(y, weight.reshape(self.shape), casting="same_kind")
        else:
            np.copyto(y, a.reshape(self.shape), casting="same_kind")

    def _scatter(self, a: np.ndarray, b: np.ndarray) -> None:
        """Bends (real) and jumps (imaginary) of triangles of weight `a` into `rows`; `b` is overwritten."""
        marks, rows = self.marks, self.rows.reshape(-1)
        bend, jump = marks.real, marks.imag
        rows.fill(0)
        np.copyto(bend, a)
        np.copyto(b, self.left)
        np.multiply(b, a, b)
        np.subtract(a, b, jump)
        np.add.at(rows, self.left_index.reshape(-1), marks.reshape(-1))
        np.copyto(b, self.fraction)
        np.multiply(b, a, jump)
        np.add.at(rows[self.width :], self.right_index.reshape(-1), marks.reshape(-1))

    def _sum_up(self, a: np.ndarray, b: np.ndarray) -> None:
        """Turn the weights `a` into the sum of the triangles; `b` is overwritten."""
        bends, jumps = self.rows.real, self.rows.imag
        np.add(a, a, b)
        np.copyto(a[0], bends[0])
        np.subtract(bends[1:-1], b[:-1], a[1:])
        prefix_sums(a)
        np.subtract(a, jumps[:-1], a)
        prefix_sums(a)


class _Gather(Block):
    """Wᵀ·g and Dᵀ·g on a block."""

    first: np.ndarray
    second: np.ndarray
    tri: np.ndarray
    box: np.ndarray
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype,
        edge: str,
        radius_grad: str,
        lowest: float,
        highest: float,
    ):
        self.edge, self.seed = edge, radius_grad == "seed" and edge != "renorm"
        # With a mean in g the second prefix sum grows like K², without like K^1.5.
        single = dtype.itemsize <= 4 and shape[0] < EXACT
        self.centred = not single or shape[0] > _LONG
        wide = np.dtype(np.float64)
        arrays: dict[str, Any] = {"first": (1, wide), "second": (1, wide)}
        arrays |= dict.fromkeys(("tri", "box", "a", "b", "c"), (0, wide))
        self.weighs_grid = edge != "drop" or self.centred
        if self.weighs_grid:
            arrays |= {"on_grid": (0, wide), "on_grid_slope": (0, wide)}
        super().__init__(shape, np.dtype(np.float32 if single else np.float64), lowest, highest, arrays)
        self.first[0] = self.second[0] = 0

    def run(self, g: np.ndarray, radius: np.ndarray, value: np.ndarray, slope: np.ndarray) -> None:
        """Set `value` and `slope`."""
        self.measure(radius)
        tri, box, a, b, c = self.tri, self.box, self.a, self.b, self.c
        if self.weighs_grid:
            self.weigh_grid(self.on_grid, self.on_grid_slope, a, b)
        mean = self._sum_up(g)
        self._take(tri, box, a, b)
        if self.centred:
            np.multiply(self.on_grid, mean, a)
            np.add(tri, a, tri)
            np.multiply(self.on_grid_slope, mean, a)
            np.add(box, a, box)
        if self.edge == "return":
            np.copyto(a.reshape(self.shape), g)
            np.multiply(self.on_grid, a, b)
            np.subtract(tri, b, tri)
            np.multiply(self.on_grid_slope, a, b)
            np.subtract(box, b, box)
        mass, mass_slope = (self.on_grid, self.on_grid_slope) if self.edge == "renorm" else self._mass(a, b, c)

        np.divide(tri, mass, tri)
        np.multiply(tri, mass_slope, c)
        np.subtract(box, c, box)
        np.divide(box, mass, box)
        if self.edge == "return":
            np.copyto(a.reshape(self.shape), g)
            np.add(tri, a, tri)
        self._store(tri, value, g)
        self._store(box, slope, None)

    def _sum_up(self, g: np.ndarray) -> Any:
        """The first and second prefix sums of `g`, after taking out the mean if `centred`; the mean."""
        first, second = self.first[1:], self.second[1:]
        np.copyto(first.reshape(self.shape), g)
        mean = None
        if self.centred:
            np.copyto(second, first)
            prefix_sums(second)  # np.mean would add in another order where a block has one column
            mean = round_to_24_bits(second[-1] / self.size)
            np.subtract(first, mean, first)
        prefix_sums(first)
        np.copyto(second, first)
        prefix_sums(second)
        return mean

    def _take(self, tri: np.ndarray, box: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
        """What triangles and boxes gather, from the prefix sums at their ends; `a` and `b` are overwritten."""
        first, second = self.first.reshape(-1), self.second.reshape(-1)
        # mode="clip" is what lets `out` be written directly; every index is in bounds
        second.take(self.left_index, out=tri, mode="clip")
        second[self.width :].take(self.right_index, out=a, mode="clip")
        np.add(tri, a, tri)
        first.take(self.left_index, out=a, mode="clip")
        first[self.width :].take(self.right_index, out=box, mode="clip")
        np.copyto(b, self.left)
        np.multiply(b, a, b)
        np.subtract(tri, b, tri)
        np.subtract(self.radius, 1, self.radius)
        np.copyto(b, self.radius)
        np.multiply(b, box, b)
        np.add(tri, b, tri)
        np.subtract(box, a, box)
        np.subtract(tri, self.second[:-1], tri)
        np.subtract(tri, self.second[:-1], tri)

    def _mass(self, mass: np.ndarray, slope: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """S and its derivative (2m if the gradient is the seed's)."""
        f = self.floor
        np.copyto(mass, f)
        np.multiply(mass, mass, mass)
        np.add(f, f, f)
        np.add(f, 1, f)
        np.copyto(slope, f)
        np.copyto(u, self.fraction)
        np.multiply(u, slope, u)
        np.add(mass, u, mass)
        if self.seed:
            np.copyto(u, self.fraction)
            np.subtract(slope, 1, slope)
            np.add(u, u, u)
            np.add(slope, u, slope)
        return mass, slope

    def _store(self, a: np.ndarray, out: np.ndarray, identity: np.ndarray | None) -> None:
        """`a` to `out`; where the radius is below 1 `identity`, or zero."""
        if not self.some_identity:
            np.copyto(out, a.reshape(self.shape), casting="same_kind")
            return
        t, u = self.t, self.floor
        np.copyto(t, a, casting="same_kind")
        self.keep(t, self.blurred)
        if identity is not None:
            np.copyto(u.reshape(self.shape), identity)
            self.keep(u, self.identity)
            np.bitwise_or(t.view(self.identity.dtype), u.view(self.identity.dtype), t.view(self.identity.dtype))
        np.copyto(out, t.reshape(self.shape), casting="same_kind")
