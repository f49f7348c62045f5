"""Layers on images: convolution, batch normalisation and pooling, held to PyTorch, and what they refuse."""

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.gradcheck import gradcheck, gradgradcheck


def images(n=2, channels=3, height=7, width=6, dtype="float64"):
    return np.random.randn(n, channels, height, width).astype(dtype)


# -- against PyTorch


def kernel_of_torch(w):
    return w.transpose(3, 2, 0, 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel_size", [1, 3, 5])
@pytest.mark.parametrize("size", [(7, 6), (5, 5), (8, 9)])
def test_convolution_is_that_of_torch(torch, size, kernel_size, stride, bias, dtype):
    from torch_reference import assert_agree

    mine = nn.Conv(3, 4, kernel_size, stride, bias=bias, dtype=dtype)
    other = torch.nn.Conv2d(3, 4, kernel_size, stride, padding=kernel_size // 2, bias=bias, dtype=getattr(torch, dtype))
    weights = [(mine.weight, other.weight, kernel_of_torch)]
    if bias:
        weights.append((mine.bias, other.bias, np.asarray))
    assert_agree(mine, other, [images(2, 3, *size, dtype=dtype)], weights)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("kernel_size", [2, 4])
def test_an_even_kernel_pads_as_torch_does_for_same(torch, kernel_size):
    from torch_reference import assert_agree

    mine = nn.Conv(3, 4, kernel_size, dtype="float64")
    other = torch.nn.Conv2d(3, 4, kernel_size, padding="same", dtype=torch.float64)
    weights = [(mine.weight, other.weight, kernel_of_torch), (mine.bias, other.bias, np.asarray)]
    assert_agree(mine, other, [images()], weights)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(4, 3, 5, 5), (2, 3, 1, 7), (32, 3, 6, 4)])
def test_batch_normalisation_is_that_of_torch_in_training_and_evaluation(torch, shape, dtype):
    from torch_reference import assert_agree, assert_close

    mine, other = nn.BatchNorm2d(3, dtype=dtype), torch.nn.BatchNorm2d(3, dtype=getattr(torch, dtype))
    for p in (mine.weight, mine.bias):
        p.data = ndl.Tensor(np.random.rand(3).astype(dtype) + 0.5)
    weights = [(mine.weight, other.weight, np.asarray), (mine.bias, other.bias, np.asarray)]
    x = np.random.randn(*shape).astype(dtype) * 2 + 1
    assert_agree(mine, other, [x], weights)
    assert_close(mine.running_mean.numpy(), other.running_mean.numpy(), "running mean")
    count = x.size / 3
    biased = 0.9 + (other.running_var.numpy() - 0.9) * (count - 1) / count  # torch keeps the unbiased variance
    assert_close(mine.running_var.numpy(), biased.astype(dtype), "running variance")
    with torch.no_grad():
        other.running_var.copy_(torch.tensor(mine.running_var.numpy()))
    assert_agree(mine.eval(), other.eval(), [x], weights)


@pytest.mark.parametrize("order", ["channels first", "channels last"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_batch_normalisation_does_not_depend_on_the_memory_order(torch, order, dtype):
    from torch_reference import assert_agree

    mine, other = nn.BatchNorm2d(3, dtype=dtype), torch.nn.BatchNorm2d(3, dtype=getattr(torch, dtype))
    x = np.random.randn(4, 5, 6, 3).astype(dtype)

    def reorder(t):
        return t.permute((0, 3, 1, 2))

    def ours(t):
        t = reorder(t)
        return mine(t if order == "channels last" else ndl.ops.contiguous(t))

    weights = [(mine.weight, other.weight, np.asarray), (mine.bias, other.bias, np.asarray)]
    assert_agree(ours, lambda t: other(t.permute(0, 3, 1, 2)), [x], weights)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("settings", [(2, None, 0), (3, 2, 1), (3, 1, 0), (2, 3, 1)])
def test_pooling_is_that_of_torch(torch, settings, dtype):
    from torch_reference import assert_agree

    x = images(dtype=dtype)
    assert_agree(nn.MaxPool2d(*settings), torch.nn.MaxPool2d(*settings), [x])
    assert_agree(nn.AvgPool2d(*settings), torch.nn.AvgPool2d(*settings), [x])


# -- what the course relies on


def test_weights_are_drawn_before_the_bias_with_the_bounds_of_the_course():
    np.random.seed(3)
    layer = nn.Conv(2, 5, 3)
    np.random.seed(3)
    expected = (np.random.rand(3, 3, 2, 5) * 2 - 1) * np.sqrt(6 / (2 * 9))
    np.testing.assert_allclose(layer.weight.numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(layer.bias.numpy(), (np.random.rand(5) * 2 - 1) / np.sqrt(2 * 9), rtol=1e-6)


@pytest.mark.parametrize(("size", "stride"), [((8, 8), 1), ((7, 5), 2), ((9, 4), 4)])
@pytest.mark.parametrize("kernel_size", [1, 2, 3, 4, 7])
def test_the_result_is_as_large_as_the_image_over_the_stride_rounded_up(size, stride, kernel_size):
    y = nn.Conv(1, 2, kernel_size, stride)(ndl.init.rand(1, 1, *size))
    assert y.shape == (1, 2, -(-size[0] // stride), -(-size[1] // stride))


# -- errors


def test_wrong_images_and_settings_are_errors_that_say_so():
    x = ndl.init.rand(1, 4, 5, 5)
    with pytest.raises(ValueError, match=r"Conv\(in_channels=3\): images of shape \(N, 3, H, W\) are needed, got"):
        nn.Conv(3, 4, 3)(x)
    with pytest.raises(ValueError, match=r"BatchNorm2d\(dim=3\): an input of shape \(N, 3, H, W\) is needed, got"):
        nn.BatchNorm2d(3)(x)
    with pytest.raises(ValueError, match="kernel_size 9 is larger than the padded image: 5×5 with 0 on each side"):
        nn.MaxPool2d(9)(x)
    with pytest.raises(TypeError, match="kernel_size and stride are single integers"):
        nn.Conv(3, 4, (3, 3))
    with pytest.raises(ValueError, match="MaxPool2d: stride is an integer of at least 1, got 0"):
        nn.MaxPool2d(2, stride=0)
    with pytest.raises(TypeError, match="Conv: a Tensor is needed as input, got ndarray"):
        nn.Conv(3, 4, 3)(x.numpy())


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 3, 1, 2)])
def test_normalised_convolutions_have_gradients_of_first_and_second_order(order):
    def block(x, w, gamma, beta):
        y = ndl.permute(ndl.conv(x, w), (0, 3, 1, 2))
        y = y if order == (0, 3, 1, 2) else ndl.ops.contiguous(y)
        return ndl.batch_norm(y, gamma, beta, 1e-2)

    inputs = [np.random.randn(*shape) for shape in ((2, 4, 4, 2), (3, 3, 2, 2), (2,), (2,))]
    assert gradcheck(block, inputs)
    assert gradgradcheck(block, inputs)
