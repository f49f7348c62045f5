"""Functions of each element alone: exponential, logarithm, root, sigmoids; and changes of dtype and device."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import backend
from ..autograd import Tensor, TensorOp
from ..backend import Array, array_module
from .common import apply, as_value, constant


class Exp(TensorOp):
    """eᵃ"""

    reads = ("output",)

    def compute(self, a: Array) -> Array:
        return array_module(a).exp(a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad * node.output


class Log(TensorOp):
    """ln a"""

    reads = ("inputs",)

    def compute(self, a: Array) -> Array:
        return array_module(a).log(a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        (a,) = node.inputs
        return out_grad / a


class Sqrt(TensorOp):
    """√a, whose derivative is 1/(2√a)"""

    reads = ("output",)

    def compute(self, a: Array) -> Array:
        return array_module(a).sqrt(a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad * 0.5 / node.output


class Tanh(TensorOp):
    """tanh a, whose derivative is 1 − tanh² a"""

    reads = ("output",)

    def compute(self, a: Array) -> Array:
        return array_module(a).tanh(a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        y = node.output
        return out_grad * (1 - y * y)


class Sigmoid(TensorOp):
    """σ(a) = 1/(1 + e⁻ᵃ) = (1 + tanh(a/2))/2, which never overflows; its derivative is σ(1 − σ)"""

    reads = ("output",)

    def compute(self, a: Array) -> Array:
        y = array_module(a).tanh(a * backend.weak(0.5, a))
        return (y + backend.weak(1, y)) * backend.weak(0.5, y)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        y = node.output
        return out_grad * (y * (1 - y))


class Cast(TensorOp):
    """a in another dtype. The engine gives the gradient back in a's own."""

    reads = ()

    def __init__(self, dtype: Any):
        self.dtype = dtype

    def __call__(self, a: Any) -> Any:
        self.dtype = _numeric(self.dtype)
        return apply(self, as_value("Cast", a))

    def compute(self, a: Array) -> Array:
        return a.astype(self.dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad


class To(TensorOp):
    """a on another device"""

    reads = ()

    def __init__(self, device: backend.Device):
        self.device = device

    def __call__(self, a: Any) -> Any:
        _check_device(self.device)
        return apply(self, as_value("To", a))

    def compute(self, a: Array) -> Array:
        return self.device.array(a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return to(out_grad, _device(node.inputs[0]))


def _device(value: Any) -> backend.Device:
    return value.device if isinstance(value, Tensor) else backend.device_of(value)


# ------------------------------------------------------------------------------------------------------------ functions


def floating(name: str, a: Any) -> Any:
    """`a` as something to take a transcendental function of: integers as the default float, as NumPy has it."""
    a = as_value(name, a)
    return a.astype("float64") if a.dtype.kind in "iub" else a


def exp(a: Any) -> Any:
    """eᵃ elementwise.

    Parameters
    ----------
    a : Tensor
        Any shape; integers are taken as float64.

    Returns
    -------
    Tensor
        Of the same shape and, if `a` is floating, dtype.

    Raises
    ------
    TypeError
        If `a` holds no numbers.

    Examples
    --------
    >>> import needle as ndl
    >>> x = ndl.Tensor([0.0, 1.0])
    >>> ndl.exp(x).sum().backward()
    >>> x.grad
    needle.Tensor([1.         2.71828183])
    """
    return Exp()(floating("Exp", a))


def log(a: Any) -> Any:
    """ln a elementwise, −∞ at 0 and NaN below. Shapes, dtypes and errors are those of `exp`."""
    return Log()(floating("Log", a))


def sqrt(a: Any) -> Any:
    """√a elementwise; the derivative at 0 is infinite. Shapes, dtypes and errors are those of `exp`."""
    return Sqrt()(floating("Sqrt", a))


def tanh(a: Any) -> Any:
    """Hyperbolic tangent elementwise. Shapes, dtypes and errors are those of `exp`."""
    return Tanh()(floating("Tanh", a))


def sigmoid(a: Any) -> Any:
    """The logistic function 1/(1 + e⁻ᵃ) elementwise; finite for every a. Otherwise as `exp`.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.sigmoid(ndl.Tensor([-1000.0, 0.0, 1000.0]))
    needle.Tensor([0.  0.5 1. ])
    """
    return Sigmoid()(floating("Sigmoid", a))


def astype(a: Any, dtype: Any) -> Any:
    """`a` in another dtype; the tensor itself if it has that dtype already.

    Parameters
    ----------
    a : Tensor
        Any shape.
    dtype : dtype
        Floating, integer or boolean. Rounding floats to integers has the derivative 0 wherever it has one: the result
        is a constant.

    Raises
    ------
    TypeError
        If `dtype` is none of these.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.Tensor([1.0, 2.5]).astype("int64")
    needle.Tensor([1 2])
    """
    a = as_value("Cast", a)
    wanted = _numeric(dtype)
    if a.dtype == wanted:
        return a
    if a.dtype.kind == "f" and wanted.kind != "f":
        return constant(lambda x: x.astype(wanted), a)
    return apply(Cast(wanted), a)


def _numeric(dtype: Any) -> np.dtype:
    try:
        wanted = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"Cast: {dtype!r} is no dtype") from None
    if wanted.kind not in "fiub":
        raise TypeError(f"Cast: a tensor holds real numbers, {wanted} are none")
    return wanted


def to(a: Any, device: backend.Device) -> Any:
    """`a` on `device`; the tensor itself if it is there already.

    Raises
    ------
    TypeError
        If `device` is no device.
    RuntimeError
        If it cannot be used; the text says what is missing.
    """
    _check_device(device)
    a = as_value("To", a)
    return a if _device(a) == device else apply(To(device), a)


def _check_device(device: Any) -> None:
    if not isinstance(device, backend.Device):
        raise TypeError(f"To: a device is needed, ndl.cpu() or ndl.cuda(), got {type(device).__name__}")
