"""Gradients checked against finite differences: `gradcheck`, `gradgradcheck` and their `GradientError`.

For outputs F(x) and a random cotangent v, reverse mode claims the gradient g = vᵀ·∂F/∂x. Along a random direction u
the slope of vᵀ·F(x + t·u) at t = 0 is then ⟨g, u⟩, and central differences measure it in float64 (``differences``). A
random cotangent sees what ones cannot (a gradient that is permuted or transposed), and a random direction sees every
element at the price of a few evaluations of F.

Where the function has a kink there is no slope. The measuring itself steps around kinks that are near, or finds that
there is none; then the direction is dropped. If all directions had to be, the point sits on a kink: it is moved by
about 1 %, and everything starts over there. A function with a kink in every direction is an error, never a pass.

When a check fails, each op of the graph is tried alone, to name the one whose rule is wrong (``diagnosis``), and its
slopes are measured element by element, for the worst index and the likeliest mistake (``mistakes``).
"""

from .check import gradcheck, gradgradcheck
from .function import GradientError

__all__ = ["GradientError", "gradcheck", "gradgradcheck"]
