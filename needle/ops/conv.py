"""Convolution (cross-correlation) of images, and its two adjoints, which are each other's gradients.

With y = x ⋆ w, the number ⟨x ⋆ w, g⟩ is linear in each of the images x, the kernel w and the cotangent g. Its three
partial derivatives are three ops, and differentiating any of them leads to the other two:

====================  ======================  ==========================================
op                    gives                   gradient for a cotangent of its own result
====================  ======================  ==========================================
`Conv` (x, w)         y = x ⋆ w               x: ConvImage(ȳ, w)   w: ConvKernel(x, ȳ)
`ConvImage` (g, w)    ∂⟨x ⋆ w, g⟩/∂x          g: Conv(x̄, w)        w: ConvKernel(x̄, g)
`ConvKernel` (x, g)   ∂⟨x ⋆ w, g⟩/∂w          x: ConvImage(g, w̄)   g: Conv(x, w̄)
====================  ======================  ==========================================
"""

from __future__ import annotations

from typing import Any

from ..autograd import Tensor, TensorOp
from ..backend import Array, Shape
from . import im2col
from .checks import as_integer
from .common import apply, as_value, on_one_device, shape_of
from .reduction import summation


class Conv(TensorOp):
    """The cross-correlation x ⋆ w of images (N, H, W, I) with a kernel (K, M, I, O); a third input (O,) is added"""

    reads = ("inputs",)

    def __init__(self, stride: int = 1, padding: int = 1):
        self.stride = stride
        self.padding = padding

    def __call__(self, x: Any, w: Any, *bias: Any) -> Any:
        return conv(x, w, self.stride, self.padding, *bias) if type(self) is Conv else apply(self, x, w, *bias)

    def compute(self, x: Array, w: Array, *bias: Array) -> Array:
        return im2col.convolve(x, w, self.stride, (self.padding, self.padding), *bias)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        x, w = node.inputs[:2]
        needs = need_x, need_w, *need_bias = node.needs_input_grad
        if not isinstance(out_grad, Tensor):
            return im2col.gradients(x, w, out_grad, self.stride, (self.padding, self.padding), needs)
        to_x = ConvImage(self.stride, self.padding, x.shape)(out_grad, w) if need_x else None
        to_w = ConvKernel(self.stride, self.padding, w.shape)(x, out_grad) if need_w else None
        return to_x, to_w, *[summation(out_grad, (0, 1, 2)) if need else None for need in need_bias]


class ConvImage(TensorOp):
    """The gradient of ⟨x ⋆ w, g⟩ with respect to images x of `shape`, which is linear in g and in w"""

    reads = ("inputs",)

    def __init__(self, stride: int, padding: int, shape: Shape):
        self.stride = stride
        self.padding = padding
        self.shape = shape

    def compute(self, g: Array, w: Array) -> Array:
        return im2col.image_gradient(g, w, self.stride, (self.padding, self.padding), self.shape)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        g, w = node.inputs
        need_g, need_w = node.needs_input_grad
        return (
            apply(Conv(self.stride, self.padding), out_grad, w) if need_g else None,
            ConvKernel(self.stride, self.padding, w.shape)(out_grad, g) if need_w else None,
        )


class ConvKernel(TensorOp):
    """The gradient of ⟨x ⋆ w, g⟩ with respect to a kernel w of `shape`, which is linear in x and in g"""

    reads = ("inputs",)

    def __init__(self, stride: int, padding: int, shape: Shape):
        self.stride = stride
        self.padding = padding
        self.shape = shape

    def compute(self, x: Array, g: Array) -> Array:
        return im2col.kernel_gradient(x, g, self.stride, (self.padding, self.padding), self.shape)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        x, g = node.inputs
        need_x, need_g = node.needs_input_grad
        return (
            ConvImage(self.stride, self.padding, x.shape)(g, out_grad) if need_x else None,
            apply(Conv(self.stride, self.padding), x, out_grad) if need_g else None,
        )


def conv(a: Any, b: Any, stride: int = 1, padding: int = 1, bias: Any = None) -> Any:
    """The cross-correlation of a batch of images with a kernel (what deep learning calls convolution).

    Parameters
    ----------
    a : Tensor
        Images, shape (N, H, W, I).
    b : Tensor
        Kernel, shape (K, M, I, O).
    stride : int
        Pixels from one window to the next, at least 1.
    padding : int
        Zeros put around each image, on all four sides.
    bias : Tensor, optional
        Shape (O,), added to each output pixel.

    Returns
    -------
    Tensor
        Shape (N, H', W', O) with H' = (H + 2·padding − K) // stride + 1, and W' likewise.

    Raises
    ------
    ValueError
        If the shapes do not fit, or the kernel is larger than the padded image.

    Examples
    --------
    >>> import needle as ndl, numpy as np
    >>> image = ndl.Tensor(np.arange(9.0).reshape(1, 3, 3, 1))
    >>> ones = ndl.Tensor(np.ones((2, 2, 1, 1)))
    >>> ndl.conv(image, ones, padding=0).numpy()[0, ..., 0]
    array([[ 8., 12.],
           [20., 24.]])
    """
    a, b = as_value("Conv", a), as_value("Conv", b)
    stride = as_integer("Conv", "stride", stride, least=1)
    padding = as_integer("Conv", "padding", padding, least=0)
    images, kernel = shape_of(a), shape_of(b)
    if len(images) != 4 or len(kernel) != 4:
        raise ValueError(f"Conv: images (N, H, W, I) and a kernel (K, M, I, O) are needed, got {images} and {kernel}")
    if images[3] != kernel[2]:
        raise ValueError(f"Conv: images {images} have {images[3]} channels, the kernel {kernel} takes {kernel[2]}")
    if min(kernel) == 0:
        raise ValueError(f"Conv: a kernel of shape {kernel} has no elements")
    for axis in (0, 1):
        size = images[axis + 1] + 2 * padding
        if kernel[axis] > size:
            raise ValueError(
                f"Conv: the kernel {kernel} is larger than the padded image: {kernel[axis]} against "
                f"{images[axis + 1]} + 2·{padding} along axis {axis + 1} of {images}; pad more or take a smaller kernel"
            )
    operands = [a, b]
    if bias is not None:
        operands.append(as_value("Conv", bias))
        if shape_of(operands[2]) != kernel[3:]:
            raise ValueError(f"Conv: a kernel {kernel} needs a bias of shape {kernel[3:]}, got {shape_of(operands[2])}")
    return apply(Conv(stride, padding), *on_one_device("Conv", *operands))
