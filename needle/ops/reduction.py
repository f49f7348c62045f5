"""Sums, means and extrema over axes."""

from __future__ import annotations

import math
from typing import Any

from ..autograd import TensorOp
from ..backend import Array, Shape
from .common import Axes, as_value, constant, normalize_axes, shape_of
from .shape import broadcast_to, reshape


def _kept(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """`shape` with size 1 in place of the reduced axes."""
    return tuple([1 if i in axes else size for i, size in enumerate(shape)])


def spread(reduced: Any, shape: Shape, axes: tuple[int, ...]) -> Any:
    """A result of a reduction over `axes`, repeated along them to `shape` again."""
    return broadcast_to(reshape(reduced, _kept(shape, axes)), shape)


class Summation(TensorOp):
    """The sum over axes (None: all)"""

    reads = ()

    def __init__(self, axes: Axes = None, keepdims: bool = False):
        self.axes = axes
        self.keepdims = keepdims

    def compute(self, a: Array) -> Array:
        axes = normalize_axes("Summation", self.axes, a.ndim)
        return a.sum(axis=axes, keepdims=self.keepdims)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        shape = node.inputs[0].shape
        return spread(out_grad, shape, normalize_axes("Summation", self.axes, len(shape)))


class Max(TensorOp):
    """The maximum over axes; elements that tie for it share the gradient equally"""

    reads = ("inputs", "output")

    def __init__(self, axes: tuple[int, ...], keepdims: bool = False):
        self.axes = axes
        self.keepdims = keepdims

    def compute(self, a: Array) -> Array:
        return a.max(axis=self.axes, keepdims=self.keepdims)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        (a,) = node.inputs
        share = constant(self._share, a, node.output)
        return spread(out_grad, a.shape, self.axes) * share

    def _share(self, a: Array, y: Array) -> Array:
        hit = (a == y.reshape(_kept(a.shape, self.axes))).astype(a.dtype)
        return hit / hit.sum(axis=self.axes, keepdims=True)


def summation(a: Any, axes: Axes = None, keepdims: bool = False) -> Any:
    """The sum over `axes`: an integer, several, or all by default; negative ones count from the end.

    Parameters
    ----------
    a : Tensor
        Any shape.
    axes : int or sequence of int, optional
        The axes that disappear.
    keepdims : bool
        Whether they stay with size 1.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.summation(ndl.Tensor([[1.0, 2.0], [3.0, 4.0]]), axes=-1)
    needle.Tensor([3. 7.])
    """
    a = as_value("Summation", a)
    if axes is not None:
        axes = normalize_axes("Summation", axes, len(shape_of(a)))
    return Summation(axes, keepdims)(a)


def mean(a: Any, axes: Axes = None, keepdims: bool = False) -> Any:
    """The mean over `axes`, as `summation` takes them. Over no elements it is an error."""
    a = as_value("mean", a)
    shape = shape_of(a)
    count = math.prod(shape[i] for i in normalize_axes("mean", axes, len(shape)))
    if count == 0:
        raise ValueError(f"mean: no elements along axes {axes} of shape {shape}")
    return summation(a, axes, keepdims) / count


def max_(a: Any, axes: Axes = None, keepdims: bool = False) -> Any:
    """The maximum over `axes`, as `summation` takes them. Elements that tie share the gradient equally.

    Examples
    --------
    >>> import needle as ndl
    >>> x = ndl.Tensor([1.0, 3.0, 3.0])
    >>> ndl.max(x).backward()
    >>> x.grad
    needle.Tensor([0.  0.5 0.5])
    """
    a = as_value("Max", a)
    shape = shape_of(a)
    axes = normalize_axes("Max", axes, len(shape))
    if any(shape[i] == 0 for i in axes):
        raise ValueError(f"Max: no elements along axes {axes} of shape {shape}")
    return Max(axes, keepdims)(a)


def min_(a: Any, axes: Axes = None, keepdims: bool = False) -> Any:
    """The minimum over `axes`, as −max(−a)."""
    return -max_(-as_value("Min", a), axes, keepdims)
