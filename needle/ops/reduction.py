"""Sums, means and extrema over axes."""

from __future__ import annotations

import copy
import math
from typing import Any

from ..autograd import TensorOp
from ..backend import Array, Shape
from .checks import as_flag
from .common import Axes, apply, as_value, constant, normalize_axes, shape_of
from .elementwise import astype
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

    def __call__(self, a: Any) -> Any:
        self.keepdims = as_flag("Summation", "keepdims", self.keepdims)
        return apply(self, as_value("Summation", a))

    def compute(self, a: Array) -> Array:
        axes = normalize_axes("Summation", self.axes, a.ndim)
        return a.sum(axis=axes, keepdims=self.keepdims)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        shape = node.inputs[0].shape
        return spread(out_grad, shape, normalize_axes("Summation", self.axes, len(shape)))


class Max(TensorOp):
    """The maximum over axes; elements that tie for it share the gradient equally"""

    reads = ("inputs", "output")

    def __init__(self, axes: Any = None, keepdims: bool = False):
        self.axes = axes
        self.keepdims = keepdims

    def __call__(self, a: Any) -> Any:
        a, op = as_value(type(self).__name__, a), copy.copy(self)
        op.axes, op.keepdims = _checked(type(self).__name__, a, self.axes, self.keepdims)
        return apply(op, a)

    def compute(self, a: Array) -> Array:
        return a.max(axis=self.axes, keepdims=self.keepdims)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        (a,) = node.inputs
        share = constant(self._share, a, node.output)
        return spread(out_grad, a.shape, self.axes) * share

    def _share(self, a: Array, y: Array) -> Array:
        hit = (a == y.reshape(_kept(a.shape, self.axes))).astype(a.dtype)
        return hit / hit.sum(axis=self.axes, keepdims=True)


class Min(Max):
    """The minimum over axes; elements that tie for it share the gradient equally"""

    def compute(self, a: Array) -> Array:
        return a.min(axis=self.axes, keepdims=self.keepdims)


def summation(a: Any, axes: Axes = None, *, keepdims: bool = False) -> Any:
    """The sum over `axes`.

    Parameters
    ----------
    a : Tensor
        Any shape.
    axes : int or sequence of int, optional
        The axes that disappear, all by default; negative ones count from the end.
    keepdims : bool
        Whether they stay with size 1.

    Returns
    -------
    Tensor
        Of the dtype of `a`; small integers and booleans are summed as NumPy does, in the default integer.

    Raises
    ------
    ValueError
        If an axis is out of range or named twice.
    TypeError
        If an axis is no integer, or `a` holds no numbers.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.summation(ndl.Tensor([[1.0, 2.0], [3.0, 4.0]]), axes=-1)
    needle.Tensor([3. 7.])
    """
    a = as_value("Summation", a)
    if axes is not None:
        axes = normalize_axes("Summation", axes, len(shape_of(a)))
    return apply(Summation(axes, as_flag("Summation", "keepdims", keepdims)), a)


def mean(a: Any, axes: Axes = None, *, keepdims: bool = False) -> Any:
    """The mean over `axes`, as `summation` takes them; integers give floats.

    Raises
    ------
    ValueError
        Also if there are no elements along the axes.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.mean(ndl.Tensor([[1.0, 2.0], [3.0, 4.0]]), axes=0)
    needle.Tensor([2. 3.])
    """
    a = as_value("mean", a)
    shape = shape_of(a)
    axes = normalize_axes("mean", axes, len(shape))
    _check_not_empty("mean", shape, axes)
    count = math.prod([shape[i] for i in axes])
    if a.dtype == "float16":  # whose largest number is 65,504: the sum is taken in float32
        return astype(summation(astype(a, "float32"), axes, keepdims=keepdims) / count, "float16")
    return summation(a, axes, keepdims=keepdims) / count


def max_(a: Any, axes: Axes = None, *, keepdims: bool = False) -> Any:
    """The maximum over `axes`, as `summation` takes them. Elements that tie share the gradient equally.

    Raises
    ------
    ValueError
        Also if there are no elements along the axes.

    Examples
    --------
    >>> import needle as ndl
    >>> x = ndl.Tensor([1.0, 3.0, 3.0])
    >>> ndl.max(x).backward()
    >>> x.grad
    needle.Tensor([0.  0.5 0.5])
    """
    return _extremum(Max, a, axes, keepdims)


def min_(a: Any, axes: Axes = None, *, keepdims: bool = False) -> Any:
    """The minimum over `axes`, otherwise as `max`."""
    return _extremum(Min, a, axes, keepdims)


def _extremum(op: type[Max], a: Any, axes: Axes, keepdims: bool) -> Any:
    a = as_value(op.__name__, a)
    return apply(op(*_checked(op.__name__, a, axes, keepdims)), a)


def _checked(name: str, a: Any, axes: Axes, keepdims: Any) -> tuple[tuple[int, ...], bool]:
    """The axes counted from the front, along all of which there are elements, and whether they are kept."""
    axes = normalize_axes(name, axes, len(shape_of(a)))
    _check_not_empty(name, shape_of(a), axes)
    return axes, as_flag(name, "keepdims", keepdims)


def _check_not_empty(name: str, shape: Shape, axes: tuple[int, ...]) -> None:
    if any(shape[i] == 0 for i in axes):
        raise ValueError(f"{name}: no elements along axes {axes} of shape {shape}")
