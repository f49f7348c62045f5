"""Ops that put constants around and between elements, and take them out again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autograd import TensorOp
from ..backend import Array, Shape, array_module
from .checks import as_integer
from .common import Axes, apply, as_scalar, as_value, shape_of


class Pad(TensorOp):
    """a with `before` and `after` elements of a constant around each axis"""

    reads = ()

    def __init__(self, pads: tuple[tuple[int, int], ...], value: float = 0.0):
        self.pads = pads
        self.value = value

    def __call__(self, a: Any) -> Any:
        a = as_value("Pad", a)
        self.pads, self.value = _pairs(shape_of(a), self.pads), _number(self.value)
        return apply(self, a)

    def compute(self, a: Array) -> Array:
        shape = tuple([before + size + after for size, (before, after) in zip(a.shape, self.pads)])
        out = array_module(a).full(shape, self.value, dtype=a.dtype)
        out[self._inside(a.shape)] = a
        return out

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad[self._inside(node.inputs[0].shape)]

    def _inside(self, shape: tuple[int, ...]) -> tuple[slice, ...]:
        return tuple([slice(before, before + size) for size, (before, _) in zip(shape, self.pads)])


class Dilate(TensorOp):
    """a with `dilation` zeros after each element along axes; an axis that a lacks is ignored"""

    reads = ()

    def __init__(self, axes: Any, dilation: int):
        self.axes = axes
        self.dilation = dilation

    def __call__(self, a: Any) -> Any:
        return dilate(a, self.axes, self.dilation) if type(self) is Dilate else apply(self, a)

    def compute(self, a: Array) -> Array:
        shape, step = list(a.shape), self.dilation + 1
        for axis in _present(self.axes, a.ndim):
            shape[axis] *= step
        out = array_module(a).zeros(tuple(shape), dtype=a.dtype)
        out[_every(step, self.axes, a.ndim)] = a
        return out

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return undilate(out_grad, self.axes, self.dilation)


class UnDilate(TensorOp):
    """Every (`dilation` + 1)-th element of a along axes, from the first; an axis that a lacks is ignored"""

    reads = ()

    def __init__(self, axes: Any, dilation: int):
        self.axes = axes
        self.dilation = dilation

    def __call__(self, a: Any) -> Any:
        return undilate(a, self.axes, self.dilation) if type(self) is UnDilate else apply(self, a)

    def compute(self, a: Array) -> Array:
        return a[_every(self.dilation + 1, self.axes, a.ndim)]

    def gradient(self, out_grad: Any, node: Any) -> Any:
        shape = node.inputs[0].shape
        grad = dilate(out_grad, self.axes, self.dilation)
        # The last element's zeros reach past the end of an axis whose size the step does not divide.
        return grad if grad.shape == shape else grad[tuple([slice(size) for size in shape])]


def _present(axes: tuple[int, ...], ndim: int) -> set[int]:
    return {axis % ndim for axis in axes if -ndim <= axis < ndim}


def _every(step: int, axes: tuple[int, ...], ndim: int) -> tuple[slice, ...]:
    present = _present(axes, ndim)
    return tuple([slice(None, None, step if i in present else None) for i in range(ndim)])


def pad(a: Any, axes: Sequence[tuple[int, int]], value: float = 0.0) -> Any:
    """`a` with a constant around it.

    Parameters
    ----------
    a : Tensor
        Any shape.
    axes : sequence of (int, int)
        For each axis, how many elements come before and after.
    value : float
        The constant.

    Raises
    ------
    TypeError
        If `axes` is no sequence, or a width or the constant no number.
    ValueError
        If there is not one pair of non-negative integers per axis.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.pad(ndl.Tensor([[1.0, 2.0]]), ((0, 1), (1, 0)))
    needle.Tensor([[0. 1. 2.]
     [0. 0. 0.]])
    """
    a = as_value("Pad", a)
    pads, value = _pairs(shape_of(a), axes), _number(value)
    return apply(Pad(pads, value), a) if any(map(any, pads)) else a


def _pairs(shape: Shape, axes: Any) -> tuple:
    """`axes` as a tuple of pairs of Python integers, one for each axis of `shape`."""
    listed = isinstance(axes, (tuple, list))
    if not listed or len(axes) != len(shape) or any([not isinstance(p, (tuple, list)) or len(p) != 2 for p in axes]):
        error = ValueError if listed else TypeError
        raise error(f"Pad: a pair (before, after) for each axis of shape {shape} is needed, got {axes!r}")
    return tuple([tuple([as_integer("Pad", "a width", n, least=0) for n in pair]) for pair in axes])


def _number(value: Any) -> Any:
    scalar = as_scalar(value)
    if scalar is None:
        raise TypeError(f"Pad: the constant is a number, got {value!r}")
    return scalar


def dilate(a: Any, axes: Axes, dilation: int) -> Any:
    """`a` with `dilation` zeros after each element along `axes`: a size s becomes s·(dilation + 1).

    An axis that the tensor lacks is ignored.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.dilate(ndl.Tensor([[1.0, 2.0]]), axes=(1,), dilation=1)
    needle.Tensor([[1. 0. 2. 0.]])
    """
    op = Dilate(_axes("Dilate", axes), as_integer("Dilate", "dilation", dilation, least=0))
    return apply(op, as_value("Dilate", a))


def undilate(a: Any, axes: Axes, dilation: int) -> Any:
    """Every (dilation + 1)-th element of `a` along `axes`: takes out what `dilate` put in."""
    op = UnDilate(_axes("UnDilate", axes), as_integer("UnDilate", "dilation", dilation, least=0))
    return apply(op, as_value("UnDilate", a))


def _axes(name: str, axes: Any) -> tuple[int, ...]:
    given = (axes,) if isinstance(axes, (int, np.integer)) else axes
    if not isinstance(given, (tuple, list)) or not all(isinstance(axis, (int, np.integer)) for axis in given):
        raise TypeError(f"{name}: axes are an integer or a tuple of integers, got {axes!r}")
    return tuple([int(axis) for axis in given])
