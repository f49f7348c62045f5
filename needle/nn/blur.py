"""The layer that learns how blurry each point of a signal may become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import init
from ..backend import Device
from ..ops.blur import AdaptiveBlur as AdaptiveBlurOp
from ..ops.blur import adaptive_blur
from .basic import check_input
from .module import Module, Parameter


class AdaptiveBlur(Module):
    """Blurs along an axis, every point with a learned radius of its own: see `needle.ops.adaptive_blur`.

    To find out what a network listens to, put this in front of it and let the radii grow as far as its output stays the
    same: where they stay small the information is.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the radii. They broadcast against the input: ``(257, 1)`` is one radius for each of 257 rows,
        ``(8, 257, 100)`` one for every point of 8 inputs.
    radius : float
        What all radii are at first, in steps of the axis. From 1 on they are learned; below 1 a point is not blurred,
        and its radius gets no gradient.
    axis : int
        The axis of the input to blur along.
    edge : {"drop", "return", "renorm"}
        What becomes of what leaves the grid: lost, left where it came from, or made up for by the rest.
    radius_grad : {"exact", "seed"}
        The derivative with respect to the radius.
    device, dtype
        Of the radii.

    Attributes
    ----------
    radius : Parameter
        The radii, of shape `shape`.

    Raises
    ------
    ValueError
        If `edge` or `radius_grad` is none of the above, `radius` is NaN, or a size is negative.
    TypeError
        If `radius` is no number or a size no integer.

    Examples
    --------
    >>> import needle as ndl
    >>> layer = ndl.nn.AdaptiveBlur(5, radius=2.0)
    >>> layer(ndl.Tensor([0.0, 0.0, 4.0, 0.0, 0.0]))
    needle.Tensor([0. 1. 2. 1. 0.])
    """

    def __init__(
        self,
        shape: int | Sequence[int],
        radius: float = 1.0,
        axis: int = 0,
        edge: str = "drop",
        radius_grad: str = "exact",
        device: Device | None = None,
        dtype: Any = "float32",
    ):
        super().__init__(device, dtype)
        AdaptiveBlurOp(axis, edge, radius_grad)  # says what is wrong with them
        if isinstance(radius, bool) or not isinstance(radius, (int, float)):
            raise TypeError(f"AdaptiveBlur: radius is the number that all radii start from, got {radius!r}")
        if radius != radius:
            raise ValueError("AdaptiveBlur: radius is NaN")
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        self.axis, self.edge, self.radius_grad = axis, edge, radius_grad
        self.radius = Parameter(init.constant(*sizes, c=radius, device=device, dtype=dtype))

    def forward(self, x: Any) -> Any:
        """The shape of the input and of the radii, broadcast."""
        return adaptive_blur(check_input("AdaptiveBlur", x), self.radius, self.axis, self.edge, self.radius_grad)

    def extra_repr(self) -> str:
        """What is not learned."""
        return f"axis={self.axis}, edge={self.edge!r}"
