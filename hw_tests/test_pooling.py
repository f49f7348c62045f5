"""Pooling over windows of the last two axes."""

import numpy as np
import pytest

import needle as ndl
from needle.gradcheck import gradcheck, gradgradcheck

SETTINGS = [(2, None, 0), (3, 2, 1), (2, 1, 1), (3, 4, 0), (1, 2, 0)]


def pool(a, reduce, kernel_size, stride, padding, value):
    """The definition, one window at a time."""
    stride = stride or kernel_size
    a = np.pad(a, [(0, 0)] * (a.ndim - 2) + [(padding, padding)] * 2, constant_values=value)
    rows, columns = ((size - kernel_size) // stride + 1 for size in a.shape[-2:])
    out = np.empty((*a.shape[:-2], rows, columns))
    for i in range(rows):
        for j in range(columns):
            top, left = i * stride, j * stride
            out[..., i, j] = reduce(a[..., top : top + kernel_size, left : left + kernel_size], axis=(-2, -1))
    return out


@pytest.mark.parametrize("settings", SETTINGS)
def test_pooling_is_its_definition(settings):
    a = np.random.randn(2, 3, 7, 6)
    np.testing.assert_array_equal(ndl.max_pool(a, *settings), pool(a, np.max, *settings, -np.inf))
    np.testing.assert_allclose(ndl.avg_pool(a, *settings), pool(a, np.mean, *settings, 0.0), atol=1e-14)


@pytest.mark.parametrize("settings", SETTINGS)
def test_gradients_and_second_derivatives_of_pooling(settings):
    a = np.random.permutation(2 * 5 * 6).reshape(2, 5, 6) / 7  # no two elements are near a tie
    for op in (ndl.max_pool, ndl.avg_pool):
        assert gradcheck(lambda x, op=op: op(x, *settings), a)
        assert gradgradcheck(lambda x, op=op: op(x, *settings) ** 2, a)


def test_elements_that_tie_share_the_gradient():
    x = ndl.Tensor([[1.0, 3.0], [3.0, 0.0]])
    ndl.max_pool(x, 2).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[0, 0.5], [0.5, 0]])


@pytest.mark.parametrize(
    ("shape", "settings", "text"),
    [
        ((3,), (2,), r"images \(…, H, W\) are needed, got shape \(3,\)"),
        ((2, 2), (3,), "kernel_size 3 is larger than the padded image: 2×2 with 0 on each side"),
        ((4, 4), (2, 1, 2), "padding 2 is more than half of kernel_size 2"),
        ((4, 4), (0,), "kernel_size is an integer of at least 1, got 0"),
        ((4, 4), (2, 0), "stride is an integer of at least 1, got 0"),
    ],
)
def test_windows_that_do_not_fit_are_an_error_that_says_so(shape, settings, text):
    with pytest.raises(ValueError, match=text):
        ndl.max_pool(np.ones(shape), *settings)


def test_integers_are_not_pooled():
    with pytest.raises(TypeError, match="avg_pool: images of a float dtype are needed, got int64"):
        ndl.avg_pool(np.ones((2, 2), dtype=np.int64), 2)
