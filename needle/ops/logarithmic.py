"""Softmax and its logarithm, computed so that nothing overflows: the maximum is taken out first."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd import TensorOp
from ..backend import Array, array_module
from .common import Axes, apply, normalize_axes, shape_of
from .elementwise import exp, floating
from .reduction import spread, summation


def _finite_max(a: Array, axes: Any) -> Array:
    """The maximum, or 0 where it is infinite (so that −∞ − max stays −∞)."""
    xp = array_module(a)
    if not a.size:  # the maximum of nothing is −∞
        return a.sum(axis=axes, keepdims=True)
    top = a.max(axis=axes, keepdims=True)
    return xp.where(xp.isfinite(top), top, a.dtype.type(0))


def _log(total: Array) -> Array:
    """ln, where that of an empty sum (or one of e^(−∞)) is −∞ and no reason to warn."""
    with np.errstate(divide="ignore"):
        return array_module(total).log(total)


class LogSumExp(TensorOp):
    """ln Σ eᵃ over axes, whose derivative is the softmax e^(a − y)"""

    reads = ("inputs", "output")

    def __init__(self, axes: Axes = None):
        self.axes = axes

    def compute(self, a: Array) -> Array:
        xp, axes = array_module(a), normalize_axes("LogSumExp", self.axes, a.ndim)
        top = _finite_max(a, axes)
        return _log(xp.exp(a - top).sum(axis=axes)) + top.squeeze(axes)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        (a,) = node.inputs
        axes = normalize_axes("LogSumExp", self.axes, a.ndim)
        return spread(out_grad, a.shape, axes) * exp(a - spread(node.output, a.shape, axes))


class LogSoftmax(TensorOp):
    """ln softmax over the last axis.

    With y = a − ln Σ eᵃ: dy = da − Σ softmax(a)·da, so ā = ȳ − softmax(a)·Σ ȳ, and softmax(a) = eʸ.
    """

    reads = ("output",)

    def __call__(self, a: Any) -> Any:
        return apply(self, _with_axis("LogSoftmax", a))

    def compute(self, a: Array) -> Array:
        xp = array_module(a)
        shifted = a - _finite_max(a, -1)
        return shifted - _log(xp.exp(shifted).sum(axis=-1, keepdims=True))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        y = node.output
        total = summation(out_grad, -1)
        return out_grad - exp(y) * spread(total, y.shape, (y.ndim - 1,))


class Softmax(TensorOp):
    """eᵃ / Σ eᵃ over the last axis: ā = y·(ȳ − Σ ȳ·y)"""

    reads = ("output",)

    def __call__(self, a: Any) -> Any:
        return apply(self, _with_axis("Softmax", a))

    def compute(self, a: Array) -> Array:
        xp = array_module(a)
        e = xp.exp(a - _finite_max(a, -1))
        return e / e.sum(axis=-1, keepdims=True)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        y = node.output
        weighted = summation(out_grad * y, -1)
        return (out_grad - spread(weighted, y.shape, (y.ndim - 1,))) * y


def logsumexp(a: Any, axes: Axes = None) -> Any:
    """ln Σ eᵃ over axes.

    Parameters
    ----------
    a : Tensor
        Any shape; integers are taken as float64.
    axes : int or sequence of int, optional
        The axes that disappear, all by default. Over no elements the result is −∞.

    Raises
    ------
    ValueError
        If an axis is out of range or named twice.
    TypeError
        If an axis is no integer, or `a` holds no numbers.

    Examples
    --------
    >>> import needle as ndl
    >>> round(ndl.logsumexp(ndl.Tensor([1000.0, 1000.0])).item() - 1000, 9)  # ln 2
    0.693147181
    """
    a = floating("LogSumExp", a)
    if axes is not None:
        axes = normalize_axes("LogSumExp", axes, len(shape_of(a)))
    return apply(LogSumExp(axes), a)


def _with_axis(name: str, a: Any) -> Any:
    a = floating(name, a)
    if not shape_of(a):
        raise ValueError(f"{name}: at least one axis is needed, got a 0-d tensor")
    return a


def logsoftmax(a: Any) -> Any:
    """ln softmax over the last axis.

    Parameters
    ----------
    a : Tensor
        At least one axis; integers are taken as float64.

    Returns
    -------
    Tensor
        Of the same shape.

    Raises
    ------
    ValueError
        If `a` has no axis.
    TypeError
        If `a` holds no numbers.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.exp(ndl.logsoftmax(ndl.Tensor([1000.0, 1000.0])))
    needle.Tensor([0.5 0.5])
    """
    return apply(LogSoftmax(), _with_axis("LogSoftmax", a))


def softmax(a: Any) -> Any:
    """eᵃ / Σ eᵃ over the last axis, otherwise as `logsoftmax`.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.softmax(ndl.Tensor([0.0, 0.0, 1000.0]))
    needle.Tensor([0. 0. 1.])
    """
    return apply(Softmax(), _with_axis("Softmax", a))
