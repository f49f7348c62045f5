"""The adaptive blur as its definition reads: a dense K×K matrix per column. What the fast one is held to.

Nothing here is clever: distances, weights and their derivatives stand as in docs/adaptive_blur.md, in float64.
"""

import numpy as np


def source(size, p, m, edge="drop", radius_grad="exact"):
    """What source `p` with radius `m` gives to the positions it reaches: (first position, w, d, ρ).

    w are the weights and d = ∂w/∂m, at an integer m from the right; ρ is the factor of the second derivative,
    ∂d/∂m = −ρ·d. If `radius_grad` is "seed", dS/dm is 2m, and d is from the left.
    """
    if m < 1:
        return p, np.ones(1), np.zeros(1), 0.0
    f = np.floor(m)
    first, last = int(max(p - f, 0)), int(min(p + f, size - 1))
    box = np.ones(last - first + 1)
    tri = m - np.abs(np.arange(first, last + 1) - p)
    mass = f * (2 * m - f - 1) + m
    slope = 2 * f + 1
    if edge == "renorm":
        mass, slope = tri.sum(), box.sum()
    elif radius_grad == "seed":
        box, slope = (tri > 0) * 1.0, 2 * m
    w = tri / mass
    d = box / mass - slope * tri / mass**2
    if edge == "return":
        w[p - first] += 1 - tri.sum() / mass
        d[p - first] -= (box.sum() * mass - tri.sum() * slope) / mass**2
    return first, w, d, 2 * slope / mass


def matrices(radius, edge="drop", radius_grad="exact"):
    """W[t, i, p], D[t, i, p] and ρ[p, t] for radii m[p, t]: what position i of column t gets of source p."""
    size, columns = radius.shape
    w, d, rho = np.zeros((columns, size, size)), np.zeros((columns, size, size)), np.zeros((size, columns))
    for t in range(columns):
        for p in range(size):
            first, weights, slopes, rho[p, t] = source(size, p, float(radius[p, t]), edge, radius_grad)
            w[t, first : first + len(weights), p] = weights
            d[t, first : first + len(weights), p] = slopes
    return w, d, rho


def blur(x, radius, edge="drop"):
    """y[i, t] = Σ_p W[t, i, p] x[p, t]."""
    return np.einsum("tip,pt->it", matrices(radius, edge)[0], x)


def gradients(x, radius, g, edge="drop", radius_grad="exact"):
    """dx and dm for the cotangent g."""
    w, d, _ = matrices(radius, edge, radius_grad)
    return np.einsum("tip,it->pt", w, g), x * np.einsum("tip,it->pt", d, g)


def long_column(x, radius, g):
    """y, dx and dm of one long column (1-D arrays), source by source: the matrix would not fit in memory."""
    y, dx, dm = np.zeros(len(x)), np.zeros(len(x)), np.zeros(len(x))
    for p, m in enumerate(radius.tolist()):
        first, w, d, _ = source(len(x), p, m)
        reached = slice(first, first + len(w))
        y[reached] += w * x[p]
        dx[p] = w @ g[reached]
        dm[p] = x[p] * (d @ g[reached])
    return y, dx, dm
