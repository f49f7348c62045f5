"""Layers on images in NCHW: convolution, batch normalisation, pooling."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from .. import init, ops
from ..backend import Device
from ..ops.checks import as_integer
from .basic import check_input, check_size
from .module import Module, Parameter
from .normalization import BatchNorm1d


class Conv(Module):
    """A convolution with "same" padding: at stride 1 the result is as high and wide as the image.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels of the image and of the result.
    kernel_size : int
        Height and width k of the kernel. k − 1 zeros are put around the image along each axis, half of them on either
        side; for an even k the odd one comes behind.
    stride : int
        Pixels from one window to the next.
    bias : bool
        Whether one number per channel is added.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    weight : Parameter
        Shape (k, k, in, out), drawn by ``kaiming_uniform`` with fan_in in·k², before the bias.
    bias : Parameter or None
        Shape (out,), uniform of ±1/√(in·k²).

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer.

    Examples
    --------
    >>> import needle as ndl
    >>> layer = ndl.nn.Conv(3, 8, kernel_size=3, stride=2)
    >>> layer(ndl.init.rand(10, 3, 32, 32)).shape
    (10, 8, 16, 16)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        bias: bool = True,
        device: Device | None = None,
        dtype: Any = "float32",
    ):
        super().__init__(device, dtype)
        if isinstance(kernel_size, (tuple, list)) or isinstance(stride, (tuple, list)):
            raise TypeError(f"Conv: kernel_size and stride are single integers, got {kernel_size} and {stride}")
        self.in_channels = check_size("Conv", in_channels, "in_channels")
        self.out_channels = check_size("Conv", out_channels, "out_channels")
        self.kernel_size = check_size("Conv", kernel_size, "kernel_size")
        self.stride = check_size("Conv", stride, "stride")
        kind: dict[str, Any] = {"device": device, "dtype": dtype}
        area = kernel_size * kernel_size
        shape = (kernel_size, kernel_size, in_channels, out_channels)
        self.weight = Parameter(init.kaiming_uniform(in_channels * area, out_channels * area, shape=shape, **kind))
        bound = 1 / math.sqrt(in_channels * area)
        self.bias = Parameter(init.rand(out_channels, low=-bound, high=bound, **kind)) if bias else None

    def forward(self, x: Any) -> Any:
        """Shape (N, in, H, W) → (N, out, ⌈H/stride⌉, ⌈W/stride⌉)."""
        shape = check_input("Conv", x).shape
        if len(shape) != 4 or shape[1] != self.in_channels:
            raise ValueError(
                f"Conv(in_channels={self.in_channels}): images of shape (N, {self.in_channels}, H, W) are needed, "
                f"got {shape}"
            )
        images = ops.permute(x, (0, 2, 3, 1))
        if self.kernel_size % 2 == 0:
            images = ops.pad(images, ((0, 0), (0, 1), (0, 1), (0, 0)))
        y = ops.conv(images, self.weight, self.stride, (self.kernel_size - 1) // 2, bias=self.bias)
        return ops.permute(y, (0, 3, 1, 2))

    def extra_repr(self) -> str:
        """Its sizes."""
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"


class BatchNorm2d(BatchNorm1d):
    """Each channel of images (N, dim, H, W) with mean 0 and variance 1 over the batch and all pixels, then scaled.

    Parameters, attributes and errors are those of `BatchNorm1d`.

    Examples
    --------
    >>> import needle as ndl
    >>> layer = ndl.nn.BatchNorm2d(3)
    >>> y = layer(ndl.init.rand(10, 3, 4, 4))
    >>> abs(y.mean((0, 2, 3))).max().item() < 1e-5
    True
    """

    _layouts: ClassVar[dict[int, str]] = {4: "(N, {}, H, W)"}


class _Pool2d(Module):
    """Settings that both poolings share."""

    def __init__(self, kernel_size: int, stride: int | None = None, padding: int = 0):
        super().__init__()
        name = type(self).__name__
        self.kernel_size = as_integer(name, "kernel_size", kernel_size, least=1)
        self.stride = self.kernel_size if stride is None else as_integer(name, "stride", stride, least=1)
        self.padding = as_integer(name, "padding", padding, least=0)

    def extra_repr(self) -> str:
        """Its sizes."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxPool2d(_Pool2d):
    """The maximum of each k×k window. See `needle.ops.max_pool`.

    Parameters
    ----------
    kernel_size : int
        Height and width k of a window.
    stride : int, optional
        Pixels from one window to the next; k by default.
    padding : int
        Border around the image, at most k/2.

    Raises
    ------
    TypeError, ValueError
        If a size is no integer, or too small.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.nn.MaxPool2d(2)(ndl.init.rand(10, 3, 8, 6)).shape
    (10, 3, 4, 3)
    """

    def forward(self, x: Any) -> Any:
        """Shape (N, C, H, W) → (N, C, H', W')."""
        return ops.max_pool(check_input("MaxPool2d", x), self.kernel_size, self.stride, self.padding)


class AvgPool2d(_Pool2d):
    """The mean of each k×k window, zeros of the padding included. See `needle.ops.avg_pool`.

    Parameters and errors are those of `MaxPool2d`.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.nn.AvgPool2d(3, stride=2, padding=1)(ndl.init.rand(10, 3, 8, 6)).shape
    (10, 3, 4, 3)
    """

    def forward(self, x: Any) -> Any:
        """Shape (N, C, H, W) → (N, C, H', W')."""
        return ops.avg_pool(check_input("AvgPool2d", x), self.kernel_size, self.stride, self.padding)
