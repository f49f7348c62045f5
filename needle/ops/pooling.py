"""Pooling: windows over the last two axes as a view, and a reduction over them.

`Windows` and `SumWindows` are each other's adjoint and so each other's gradient: what the first shows in several
windows, the second adds up. A pooling is a reduction of `Windows` over its two leading axes; that they lead, and not
trail, lets NumPy run over whole rows of pixels.
"""

from __future__ import annotations

from typing import Any

from ..autograd import TensorOp
from ..backend import Array, Shape, array_module
from .checks import as_integer
from .common import as_value, shape_of
from .im2col import output_size
from .padding import pad
from .reduction import max_, summation


class Windows(TensorOp):
    """The k×k windows over the last two axes: (…, H, W) → (k, k, …, H', W'), as a view"""

    reads = ()

    def __init__(self, kernel_size: int, stride: int):
        self.kernel_size = kernel_size
        self.stride = stride

    def compute(self, a: Array) -> Array:
        k, step = self.kernel_size, self.stride
        *outer, height, width = a.shape
        *outer_strides, line, pixel = a.strides
        return array_module(a).lib.stride_tricks.as_strided(
            a,
            (k, k, *outer, output_size(height, k, step, 0), output_size(width, k, step, 0)),
            (line, pixel, *outer_strides, line * step, pixel * step),
        )

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return SumWindows(self.kernel_size, self.stride, node.inputs[0].shape)(out_grad)


class SumWindows(TensorOp):
    """The adjoint of `Windows`: zeros of `shape` (…, H, W) with each window added where it was seen"""

    reads = ()

    def __init__(self, kernel_size: int, stride: int, shape: Shape):
        self.kernel_size = kernel_size
        self.stride = stride
        self.shape = shape

    def compute(self, a: Array) -> Array:
        out = array_module(a).zeros(self.shape, dtype=a.dtype)
        rows, columns = a.shape[-2:]
        for i in range(self.kernel_size):
            for j in range(self.kernel_size):
                part = out[..., i : i + rows * self.stride : self.stride, j : j + columns * self.stride : self.stride]
                part += a[i, j]
        return out

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return Windows(self.kernel_size, self.stride)(out_grad)


def _windows(name: str, a: Any, kernel_size: int, stride: int | None, padding: int, value: float) -> Any:
    """The windows of `a` padded with `value`, all arguments checked."""
    a = as_value(name, a)
    k = as_integer(name, "kernel_size", kernel_size, least=1)
    step = k if stride is None else as_integer(name, "stride", stride, least=1)
    border = as_integer(name, "padding", padding, least=0)
    shape = shape_of(a)
    if len(shape) < 2:
        raise ValueError(f"{name}: images (…, H, W) are needed, got shape {shape}")
    if a.dtype.kind != "f":
        raise TypeError(f"{name}: images of a float dtype are needed, got {a.dtype}")
    if 2 * border > k:
        raise ValueError(f"{name}: padding {border} is more than half of kernel_size {k}: windows would see nothing")
    if k > min(shape[-2:]) + 2 * border:
        raise ValueError(
            f"{name}: kernel_size {k} is larger than the padded image: "
            f"{shape[-2]}×{shape[-1]} with {border} on each side"
        )
    sides = ((0, 0),) * (len(shape) - 2) + ((border, border),) * 2
    return Windows(k, step)(pad(a, sides, value))


def max_pool(a: Any, kernel_size: int, stride: int | None = None, padding: int = 0) -> Any:
    """The maximum of each k×k window over the last two axes.

    Parameters
    ----------
    a : Tensor
        Images, shape (…, H, W), of a float dtype.
    kernel_size : int
        The windows' height and width k.
    stride : int, optional
        Pixels from one window to the next; k by default, so that windows tile the image.
    padding : int
        Border around each image, at most k/2, which no window takes its maximum from.

    Returns
    -------
    Tensor
        Shape (…, H', W') with H' = (H + 2·padding − k) // stride + 1, and W' likewise. Elements that tie for the
        maximum of a window share its gradient equally, as `max` has it.

    Raises
    ------
    ValueError
        If a window is larger than the padded image, or the padding than half a window.
    TypeError
        If a size is no integer, or the images are not of a float dtype.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.max_pool(ndl.Tensor([[1.0, 2.0, 3.0, 4.0], [8.0, 7.0, 6.0, 5.0]]), 2)
    needle.Tensor([[8. 6.]])
    """
    return max_(_windows("max_pool", a, kernel_size, stride, padding, -float("inf")), (0, 1))


def avg_pool(a: Any, kernel_size: int, stride: int | None = None, padding: int = 0) -> Any:
    """The mean of each k×k window over the last two axes; zeros of the padding count as elements.

    Parameters, errors and the result's shape are those of `max_pool`.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.avg_pool(ndl.Tensor([[1.0, 2.0, 3.0, 4.0], [8.0, 7.0, 6.0, 5.0]]), 2)
    needle.Tensor([[4.5 4.5]])
    """
    return summation(_windows("avg_pool", a, kernel_size, stride, padding, 0.0), (0, 1)) / kernel_size**2
