"""The adaptive blur on whole arrays of any array module: scatter, two prefix sums, gather.

`docs/adaptive_blur.md` derives what is computed here. Along the blurred axis (K positions) every source p has a radius
m and spreads two shapes, a triangle and a box with the same reach f = floor(m):

    tri(d) = m − |d|,   box(d) = 1   for |d| ≤ f,   both 0 beyond

so that ∂tri/∂m = box. The blur and its derivative with respect to the radius of each source are combinations of them::

    W = tri/S                    S  the weight of a triangle, f² + r·c with r = m − f
    D = ∂W/∂m = (box − c·W)/S    c  its derivative 2f + 1

and every further derivative is a multiple of D, ∂D/∂m = −(2c/S)·D. `spread` applies W and D, `gather` their transposes,
and `curvature` is the factor 2c/S. This file is the plain reading of the algorithm, for every array module;
`blur_numpy` does the same on the CPU, faster.
"""

from __future__ import annotations

import math
from typing import Any

from ..backend import Array, array_module, scatter_add

#: A radius beyond this one acts as this one: every grid is long passed, and squares must stay finite in float32.
RADIUS_LIMIT = 1e18


class Triangles:
    """What the radii say, with the blurred axis in front, in float64.

    Attributes
    ----------
    identity : array of bool
        Where the radius is below 1: the source stays as it is and takes no part in anything below.
    radius, fraction : array
        m (at least 1) and m − f.
    left, right : array
        How many positions a source reaches on the grid on either side, at most f.
    mass, slope : array
        S and c of the module's text, for the given edge mode; c = 2m for the seed's gradient.
    on_grid, on_grid_slope : array
        The part of the mass that falls on the grid, and its derivative.
    """

    def __init__(self, radius: Array, axis: int, edge: str, radius_grad: str):
        xp = array_module(radius)
        m = xp.moveaxis(radius, axis, 0).astype("float64")
        self.positions = xp.arange(len(m), dtype="float64").reshape((-1,) + (1,) * (m.ndim - 1))
        self.identity = m < 1
        self.radius = m = xp.where(self.identity, 1.0, xp.minimum(m, RADIUS_LIMIT))
        seed = radius_grad == "seed" and edge != "renorm"
        f = xp.ceil(m) - 1 if seed else xp.floor(m)  # at an integer: the derivative from the left, or from the right
        self.fraction = m - f
        # fmin, not minimum: should a radius be NaN, its column becomes NaN, but no index leaves the grid
        self.left = xp.fmin(f, self.positions)
        self.right = xp.fmin(f, len(m) - 1 - self.positions)
        # two arithmetic series: m + (m−1) + … + (m−left), and (m−1) + … + (m−right)
        self.on_grid = (self.left + 1) * (m - self.left / 2) + self.right * (m - (self.right + 1) / 2)
        self.on_grid_slope = 1 + self.left + self.right
        if edge == "renorm":
            self.mass, self.slope = self.on_grid, self.on_grid_slope
        else:
            self.mass = f * f + self.fraction * (2 * f + 1)
            self.slope = 2 * m if seed else 2 * f + 1

    def bases(self) -> tuple[Array, Array]:
        """Flat indices into K+1 rows of columns: the row of position p−left, and the one after p+right."""
        columns = math.prod(self.radius.shape[1:])
        first = self.positions * columns + array_module(self.radius).arange(columns, dtype="float64").reshape(
            (1,) + self.radius.shape[1:]
        )
        left, right = first - self.left * columns, first + (self.right + 1) * columns
        return left.astype("int64").ravel(), right.astype("int64").ravel()


def spread(x: Array, v: Any, radius: Array, axis: int, edge: str, radius_grad: str = "exact") -> Array:
    """W·x + D·v (W·x if `v` is None): each source's own value, spread along `axis`."""
    xp = array_module(x)
    dtype = xp.result_type(x, radius) if v is None else xp.result_type(x, v, radius)
    t = Triangles(radius, axis, edge, radius_grad)
    x = xp.moveaxis(x, axis, 0).astype("float64")
    box = None if v is None else xp.where(t.identity, 0.0, xp.moveaxis(v, axis, 0) / t.mass)
    tri = xp.where(t.identity, 0.0, (x if box is None else x - t.slope * box) / t.mass)
    own = xp.where(t.identity, x, 0.0)
    if edge == "return":
        own = xp.where(t.identity, x, x - tri * t.on_grid - (0.0 if box is None else box * t.on_grid_slope))

    # Row i+1 is about the step from position i to i+1, row 0 about the first value. `bends` are changes of the slope,
    # `jumps` what is missing of a step where a shape begins or ends between two positions.
    rows = (len(x) + 1,) + x.shape[1:]
    bends, jumps = xp.zeros(rows), xp.zeros(rows)
    begin, end = tri - tri * (t.radius - t.left), tri * t.fraction
    if box is not None:
        begin, end = begin - box, end + box
    left, right = t.bases()
    for index, bend, jump in ((left, tri, begin), (right, tri, end)):
        scatter_add(bends.ravel(), index, bend.ravel())
        scatter_add(jumps.ravel(), index, jump.ravel())
    bends[1:] -= 2 * tri
    y = xp.cumsum(xp.cumsum(bends, axis=0) - jumps, axis=0)[:-1] + own
    return xp.moveaxis(y, 0, axis).astype(dtype)


def gather(g: Array, radius: Array, axis: int, edge: str, radius_grad: str = "exact") -> tuple[Array, Array]:
    """The transposes Wᵀ·g and Dᵀ·g: what each source's shape weighs g with."""
    xp = array_module(g)
    dtype = xp.result_type(g, radius)
    t = Triangles(radius, axis, edge, radius_grad)
    g = xp.moveaxis(g, axis, 0).astype("float64")
    # A constant is gathered exactly, and without one the prefix sums stay small.
    mean = round_to_24_bits(g.mean(axis=0)) if len(g) else 0.0
    first, second = (xp.zeros((len(g) + 1,) + g.shape[1:]) for _ in range(2))
    first[1:] = xp.cumsum(g - mean, axis=0)  # row q: Σ_{i<q} g_i
    second[1:] = xp.cumsum(first[1:], axis=0)  # row q: Σ_{i<q} (q−i)·g_i
    left, right = t.bases()
    g_left, h_left, g_right, h_right = (
        sums.ravel()[index].reshape(g.shape) for index in (left, right) for sums in (first, second)
    )
    box = g_right - g_left + mean * t.on_grid_slope
    tri = h_left - (t.radius - t.left) * g_left + h_right + (t.radius - t.right - 1) * g_right
    tri = tri - 2 * second[:-1] + mean * t.on_grid
    if edge == "return":
        tri, box = tri - t.on_grid * g, box - t.on_grid_slope * g
    value = tri / t.mass
    slope = xp.where(t.identity, 0.0, (box - t.slope * value) / t.mass)
    value = xp.where(t.identity, g, value + g if edge == "return" else value)
    return xp.moveaxis(value, 0, axis).astype(dtype), xp.moveaxis(slope, 0, axis).astype(dtype)


def round_to_24_bits(a: Array) -> Array:
    """`a` (float64) with a mantissa so short that sums and products with small integers are exact (Dekker, 1971)."""
    shifted = a * (2.0**29 + 1)
    return shifted - (shifted - a)


def curvature(radius: Array, axis: int, edge: str, radius_grad: str = "exact") -> Array:
    """2c/S: how fast D decays as the radius grows, ∂D/∂m = −curvature·D. Zero below 1."""
    xp = array_module(radius)
    t = Triangles(radius, axis, edge, radius_grad)
    rho = xp.where(t.identity, 0.0, 2 * t.slope / t.mass)
    return xp.moveaxis(rho, 0, axis).astype(radius.dtype)
