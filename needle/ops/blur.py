"""Adaptive blur: every point of a signal spreads its own value along an axis, with a radius of its own.

Four ops, closed under differentiation, so that gradients exist to every order. With W and D as in `blur_scan`:

===================== ===================== =============================================================
op                    value                 gradient
===================== ===================== =============================================================
AdaptiveBlur          W(m)·x                Wᵀḡ to x and x ⊙ Dᵀḡ to m: one AdaptiveBlurAdjoint
AdaptiveBlurAdjoint   (Wᵀ·u, Dᵀ·u)          Wḡ + Dḡ′ to u and Dᵀu ⊙ (ḡ − ρḡ′) to m, for cotangents (ḡ, ḡ′)
AdaptiveBlurTangent   W·u + D·v             Wᵀḡ to u, Dᵀḡ to v and Dᵀḡ ⊙ (u − ρv) to m
BlurCurvature         ρ(m), ∂D/∂m = −ρ·D    −ρ²/2 · ḡ
===================== ===================== =============================================================

`docs/adaptive_blur.md` has the derivation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import backend
from ..autograd import Tensor, TensorOp, TensorTupleOp
from ..backend import Array
from ..kernels import blur as gpu
from . import blur_numpy, blur_scan
from .common import as_scalar, as_value, broadcast_shape, normalize_axis, on_one_device, shape_of
from .shape import broadcast_to

EDGES = ("drop", "return", "renorm")
RADIUS_GRADS = ("exact", "seed")


class _Blur:
    """What the ops share: the axis, what happens at its ends, and which derivative in the radius is meant."""

    def __init__(self, axis: int = 0, edge: str = "drop", radius_grad: str = "exact"):
        if edge not in EDGES:
            raise ValueError(f"AdaptiveBlur: edge is one of {', '.join(map(repr, EDGES))}, got {edge!r}")
        if radius_grad not in RADIUS_GRADS:
            known = ", ".join(map(repr, RADIUS_GRADS))
            raise ValueError(f"AdaptiveBlur: radius_grad is one of {known}, got {radius_grad!r}")
        self.axis, self.edge, self.radius_grad = axis, edge, radius_grad

    def _along(self, array: Array) -> tuple[int, str, str]:
        """What `blur_scan` wants to know, for an array with this many axes."""
        return normalize_axis("AdaptiveBlur", self.axis, array.ndim), self.edge, self.radius_grad

    def _same(self, kind: type) -> Any:
        """Another of the ops, along the same axis."""
        return kind(self.axis, self.edge, self.radius_grad)


class AdaptiveBlur(_Blur, TensorOp):
    """W(m)·x: the values x, each spread with its radius m"""

    reads = ("inputs",)

    def compute(self, x: Array, radius: Array) -> Array:
        axis, edge, radius_grad = self._along(x)
        if type(x) is np.ndarray:
            return blur_numpy.spread(x, radius, axis, edge)
        if gpu.fits(x, radius, axis):
            return gpu.spread(x, radius, axis, edge)
        return blur_scan.spread(x, None, radius, axis, edge, radius_grad)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        x, radius = node.inputs
        need_x, need_radius = node.needs_input_grad
        pulled = self._same(AdaptiveBlurAdjoint)(out_grad, radius)
        return pulled[0] if need_x else None, x * pulled[1] if need_radius else None


class AdaptiveBlurAdjoint(_Blur, TensorTupleOp):
    """(Wᵀ·u, Dᵀ·u): both from one pass over u"""

    reads = ("inputs", "output")

    def compute(self, u: Array, radius: Array) -> tuple:
        along = self._along(u)
        if type(u) is np.ndarray:
            return blur_numpy.gather(u, radius, *along)
        gather = gpu.gather if gpu.fits(u, radius, along[0]) else blur_scan.gather
        return gather(u, radius, *along)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        (_, radius), (value_grad, slope_grad) = node.inputs, out_grad
        to_u = self._same(AdaptiveBlurTangent)(value_grad, slope_grad, radius)
        if not node.needs_input_grad[1]:
            return to_u, None
        return to_u, node.output[1] * (value_grad - self._same(BlurCurvature)(radius) * slope_grad)


class AdaptiveBlurTangent(_Blur, TensorOp):
    """W·u + D·v: how the blur moves when x moves by u and m by v/x"""

    reads = ("inputs",)

    def compute(self, u: Array, v: Array, radius: Array) -> Array:
        return blur_scan.spread(u, v, radius, *self._along(u))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        u, v, radius = node.inputs
        pulled = self._same(AdaptiveBlurAdjoint)(out_grad, radius)
        if not node.needs_input_grad[2]:
            return pulled[0], pulled[1], None
        return pulled[0], pulled[1], pulled[1] * (u - self._same(BlurCurvature)(radius) * v)


class BlurCurvature(_Blur, TensorOp):
    """ρ(m) = 2c/S, with ∂D/∂m = −ρ·D. As ∂S/∂m = c and ∂c/∂m = 0, ∂ρ/∂m = −2c²/S² = −ρ²/2"""

    reads = ("output",)

    def compute(self, radius: Array) -> Array:
        return blur_scan.curvature(radius, *self._along(radius))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad * node.output * node.output * -0.5


def adaptive_blur(x: Any, radius: Any, axis: int = 0, edge: str = "drop", radius_grad: str = "exact") -> Any:
    """Spread every point of `x` along `axis` with a triangle whose half-width is the point's own radius.

    ``y[i] = Σ_p x[p]·w(i − p; m[p])`` with ``w(d; m) = (m − |d|)/S`` for ``|d| ≤ floor(m)``, where S is such that the
    weights sum to 1. A radius below 1 leaves its point as it is. Time and memory grow with the size of `x` alone,
    whatever the radii.

    Parameters
    ----------
    x : Tensor or array
        Values, of any float dtype and at least one axis.
    radius : Tensor, array or float
        Radii in steps of the axis, one per point of `x`; shapes broadcast. Any number will do: a point reaches beyond
        the grid with a large one, and its weight goes to zero like 1/radius. Infinity acts like 1e18.
    axis : int
        The axis to blur along; all others are batch axes.
    edge : {"drop", "return", "renorm"}
        What becomes of what leaves the grid: it is lost; it stays at its point (the sum over the axis is conserved); or
        the weights that are left are scaled to sum to 1 (conserved too).
    radius_grad : {"exact", "seed"}
        The derivative with respect to the radius. The program that the method comes from had ``2·m`` for the
        derivative of S, which is ``2·floor(m) + 1``, and took the derivative from the left at an integer: "seed" does
        so too. The two agree at half-integer radii. Derivatives of every order make the same replacement. With
        "renorm", which that program did not have, both are exact.

    Returns
    -------
    Tensor (array if only arrays are given)
        Of the broadcast shape and the promoted dtype. Sums are formed in float64.

    Raises
    ------
    TypeError
        If `x` or `radius` is not of a float dtype.
    ValueError
        If `axis` is out of range, shapes do not broadcast, devices differ, `edge` or `radius_grad` is none of the
        above, or a radius is NaN. (On a GPU looking for NaN would wait for the device: there the columns of such radii
        become NaN.)

    Notes
    -----
    At an integer radius the function has a kink in the radius, and the derivative is that from the right: a radius that
    starts at 1 can grow. Between integers all derivatives exist. At an integer the first one jumps, so a second one in
    the radius does not exist there, and what is given is the one from the right again. Below 1 all derivatives in the
    radius are 0.

    A value of `x` that is infinite or NaN spoils its column, unless its radius is below 1.

    Examples
    --------
    >>> import needle as ndl
    >>> x = ndl.Tensor([0.0, 0.0, 4.0, 0.0, 0.0])
    >>> radius = ndl.Tensor([1.0, 1.0, 2.0, 1.0, 1.0])
    >>> y = ndl.ops.adaptive_blur(x, radius)
    >>> y
    needle.Tensor([0. 1. 2. 1. 0.])
    >>> y.backward(ndl.Tensor([1.0, 2.0, 4.0, 8.0, 16.0]))
    >>> [float(leaf.grad.numpy()[2]) for leaf in (x, radius)]
    [4.5, 8.5]
    """
    op = AdaptiveBlur(axis, edge, radius_grad)
    x = as_value("AdaptiveBlur", x)
    radius = _radius_like(x, radius)
    for name, value in (("x", x), ("radius", radius)):
        if value.dtype.kind != "f":
            raise TypeError(f"AdaptiveBlur: {name} has dtype {value.dtype}: a float dtype is needed, see astype")
    x, radius = on_one_device("AdaptiveBlur", x, radius)
    shape = broadcast_shape("AdaptiveBlur", shape_of(x), shape_of(radius))
    op.axis = normalize_axis("AdaptiveBlur", axis, len(shape))
    if shape_of(x) != shape:
        x = broadcast_to(x, shape)
    if shape_of(radius) != shape:
        radius = broadcast_to(radius, shape)
    return op(x, radius)


def _radius_like(x: Any, radius: Any) -> Any:
    """`radius` as a value; a number takes the dtype and device of `x`, and is no reason to widen it."""
    number = as_scalar(radius)
    if number is None:
        return as_value("AdaptiveBlur", radius)
    device = x.device if isinstance(x, Tensor) else backend.device_of(x)
    dtype = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
    array = device.full((), number, dtype)
    return Tensor.make_const(array) if isinstance(x, Tensor) else array
