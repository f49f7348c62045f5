"""Softmax and its logarithm, computed so that nothing overflows: the maximum is taken out first."""

from __future__ import annotations

from typing import Any

from ..autograd import TensorOp
from ..backend import Array, array_module
from .common import Axes, as_value, normalize_axes, shape_of
from .elementwise import exp
from .reduction import spread, summation


def _finite_max(a: Array, axes: Any) -> Array:
    """The maximum, or 0 where it is infinite (so that −∞ − max stays −∞)."""
    xp = array_module(a)
    top = a.max(axis=axes, keepdims=True, initial=-xp.inf)
    return xp.where(xp.isfinite(top), top, a.dtype.type(0))


class LogSumExp(TensorOp):
    """ln Σ eᵃ over axes, whose derivative is the softmax e^(a − y)"""

    reads = ("inputs", "output")

    def __init__(self, axes: Axes = None):
        self.axes = axes

    def compute(self, a: Array) -> Array:
        xp, axes = array_module(a), normalize_axes("LogSumExp", self.axes, a.ndim)
        top = _finite_max(a, axes)
        return xp.log(xp.exp(a - top).sum(axis=axes)) + top.squeeze(axes)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        (a,) = node.inputs
        axes = normalize_axes("LogSumExp", self.axes, a.ndim)
        return spread(out_grad, a.shape, axes) * exp(a - spread(node.output, a.shape, axes))


class LogSoftmax(TensorOp):
    """ln softmax over the last axis.

    With y = a − ln Σ eᵃ: dy = da − Σ softmax(a)·da, so ā = ȳ − softmax(a)·Σ ȳ, and softmax(a) = eʸ.
    """

    reads = ("output",)

    def compute(self, a: Array) -> Array:
        xp = array_module(a)
        shifted = a - _finite_max(a, -1)
        return shifted - xp.log(xp.exp(shifted).sum(axis=-1, keepdims=True))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        y = node.output
        total = summation(out_grad, -1)
        return out_grad - exp(y) * spread(total, y.shape, (y.ndim - 1,))


class Softmax(TensorOp):
    """eᵃ / Σ eᵃ over the last axis: ā = y·(ȳ − Σ ȳ·y)"""

    reads = ("output",)

    def compute(self, a: Array) -> Array:
        xp = array_module(a)
        e = xp.exp(a - _finite_max(a, -1))
        return e / e.sum(axis=-1, keepdims=True)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        y = node.output
        weighted = summation(out_grad * y, -1)
        return (out_grad - spread(weighted, y.shape, (y.ndim - 1,))) * y


def logsumexp(a: Any, axes: Axes = None) -> Any:
    """ln Σ eᵃ over `axes` (an integer, several, or all by default).

    Examples
    --------
    >>> import needle as ndl
    >>> round(ndl.logsumexp(ndl.Tensor([1000.0, 1000.0])).item() - 1000, 9)  # ln 2
    0.693147181
    """
    a = as_value("LogSumExp", a)
    if axes is not None:
        axes = normalize_axes("LogSumExp", axes, len(shape_of(a)))
    return LogSumExp(axes)(a)


def _needs_axis(name: str, a: Any) -> Any:
    a = as_value(name, a)
    if not shape_of(a):
        raise ValueError(f"{name}: at least one axis is needed, got a 0-d tensor")
    return a


def logsoftmax(a: Any) -> Any:
    """ln softmax over the last axis of `a`, of the same shape."""
    return LogSoftmax()(_needs_axis("LogSoftmax", a))


def softmax(a: Any) -> Any:
    """eᵃ / Σ eᵃ over the last axis of `a`, of the same shape."""
    return Softmax()(_needs_axis("Softmax", a))
