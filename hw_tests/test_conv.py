"""Convolution and its adjoints, dilation and padding, on arrays in NHWC with kernels (K, M, I, O)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import needle as ndl
from needle.gradcheck import gradcheck, gradgradcheck
from needle.ops import im2col


def direct_convolution(x, w, stride, padding):
    """The definition, one output pixel at a time."""
    x = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    k, m = w.shape[:2]
    rows, columns = (x.shape[1] - k) // stride + 1, (x.shape[2] - m) // stride + 1
    y = np.empty((x.shape[0], rows, columns, w.shape[3]))
    for i in range(rows):
        for j in range(columns):
            window = x[:, i * stride : i * stride + k, j * stride : j * stride + m]
            y[:, i, j] = np.einsum("nkmi,kmio->no", window, w)
    return y


@st.composite
def problems(draw):
    """Images and a kernel that fits them, a stride and a padding."""
    k, m = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    stride, padding = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    height = draw(st.integers(max(1, k - 2 * padding), 7))
    width = draw(st.integers(max(1, m - 2 * padding), 6))
    n, channels, filters = draw(st.integers(0, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return (
        rng.standard_normal((n, height, width, channels)),
        rng.standard_normal((k, m, channels, filters)),
        stride,
        padding,
    )


@given(problems())
def test_convolution_is_its_definition(problem):
    x, w, stride, padding = problem
    np.testing.assert_allclose(ndl.conv(x, w, stride, padding), direct_convolution(x, w, stride, padding), atol=1e-12)


@given(problems())
def test_the_three_products_of_images_kernel_and_cotangent_are_one_number(problem):
    x, w, stride, padding = problem
    y = ndl.conv(x, w, stride, padding)
    g = np.random.default_rng(0).standard_normal(y.shape)
    number = (y * g).sum()
    to_x = ndl.ops.ConvImage(stride, padding, x.shape)(g, w)
    to_w = ndl.ops.ConvKernel(stride, padding, w.shape)(x, g)
    np.testing.assert_allclose([(to_x * x).sum(), (to_w * w).sum()], number, rtol=1e-9, atol=1e-9)


@given(problems())
def test_any_block_size_gives_the_same(problem):
    x, w, stride, padding = problem
    y = ndl.conv(x, w, stride, padding)
    before, im2col.BLOCK_BYTES = im2col.BLOCK_BYTES, 300
    try:
        np.testing.assert_allclose(ndl.conv(x, w, stride, padding), y, atol=1e-12)
        to_w, to_x = (im2col.kernel_gradient, (x, y)), (im2col.image_gradient, (y, w))
        small = [f(*args, stride, (padding, padding), s) for (f, args), s in ((to_w, w.shape), (to_x, x.shape))]
    finally:
        im2col.BLOCK_BYTES = before
    large = [f(*args, stride, (padding, padding), s) for (f, args), s in ((to_w, w.shape), (to_x, x.shape))]
    for a, b in zip(small, large):
        np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding"),
    [
        ((5, 6), (3, 3), 1, 1),
        ((6, 5), (3, 2), 2, 1),
        ((5, 5), (1, 1), 2, 0),
        ((4, 7), (4, 4), 3, 3),
        ((3, 3), (2, 3), 1, 2),
    ],
)
def test_gradients_and_second_derivatives(size, kernel, stride, padding):
    x, w, b = np.random.randn(2, *size, 2), np.random.randn(*kernel, 2, 3), np.random.randn(3)

    def convolution(x, w, b):
        return ndl.conv(x, w, stride, padding, bias=b)

    assert gradcheck(convolution, [x, w, b])
    assert gradgradcheck(convolution, [x, w, b])


def test_an_image_that_needs_no_gradient_gets_none_and_costs_none(monkeypatch):
    monkeypatch.setattr(im2col, "image_gradient", None)  # would raise if it were called
    x, w = ndl.Tensor(np.ones((1, 4, 4, 1)), requires_grad=False), ndl.Tensor(np.ones((3, 3, 1, 1)))
    ndl.conv(x, w).sum().backward()
    assert x.grad is None
    np.testing.assert_array_equal(w.grad.numpy()[..., 0, 0], [[9, 12, 9], [12, 16, 12], [9, 12, 9]])


def test_images_in_another_memory_order_give_the_same():
    x, w = np.random.randn(2, 3, 5, 4), np.random.randn(3, 3, 4, 2)
    channels_first = np.ascontiguousarray(x.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(ndl.conv(channels_first, w), ndl.conv(x, w))


def test_float32_images_and_a_float64_kernel_promote_and_gradients_keep_their_dtypes():
    x, w = ndl.Tensor(np.random.randn(1, 3, 3, 1).astype("float32")), ndl.Tensor(np.random.randn(2, 2, 1, 1))
    y = ndl.conv(x, w)
    y.sum().backward()
    assert (y.dtype, x.grad.dtype, w.grad.dtype) == ("float64", "float32", "float64")


@pytest.mark.parametrize(
    ("images", "kernel", "settings", "text"),
    [
        ((4, 4, 1), (3, 3, 1, 1), {}, r"Conv: images \(N, H, W, I\) and a kernel"),
        ((1, 4, 4, 2), (3, 3, 1, 1), {}, "have 2 channels, the kernel .* takes 1"),
        ((1, 4, 2, 1), (3, 5, 1, 1), {"padding": 1}, r"larger than the padded image: 5 against 2 \+ 2·1 along axis 2"),
        ((1, 4, 4, 1), (3, 3, 1, 0), {}, "has no elements"),
        ((1, 4, 4, 1), (3, 3, 1, 1), {"stride": 0}, "stride is an integer of at least 1, got 0"),
        ((1, 4, 4, 1), (3, 3, 1, 1), {"padding": -1}, "padding is an integer of at least 0, got -1"),
        ((1, 4, 4, 1), (3, 3, 1, 2), {"bias": np.ones(3)}, r"needs a bias of shape \(2,\), got \(3,\)"),
    ],
)
def test_what_does_not_fit_is_an_error_that_says_so(images, kernel, settings, text):
    with pytest.raises(ValueError, match=text):
        ndl.conv(ndl.Tensor(np.ones(images)), ndl.Tensor(np.ones(kernel)), **settings)


def test_a_fractional_stride_is_a_type_error():
    with pytest.raises(TypeError, match=r"Conv: stride is an integer of at least 1, got 1\.5"):
        ndl.conv(np.ones((1, 3, 3, 1)), np.ones((3, 3, 1, 1)), stride=1.5)


# -- dilation and padding


def test_dilation_puts_zeros_behind_each_element():
    a = np.array([[1.0, 2.0], [3.0, 4.0]])
    expected = [[1, 0, 0, 2, 0, 0], [3, 0, 0, 4, 0, 0]]
    np.testing.assert_array_equal(ndl.dilate(a, (1,), 2), expected)
    np.testing.assert_array_equal(ndl.undilate(np.array(expected), 1, 2), a)


def test_dilation_of_an_axis_that_is_not_there_is_ignored():
    a = np.random.randn(2, 3)
    np.testing.assert_array_equal(ndl.dilate(a, (2, 5), 3), a)
    np.testing.assert_array_equal(ndl.undilate(a, (2, -3), 3), a)


@pytest.mark.parametrize("axes", [(0,), (1, 2), (-1,), ()])
def test_gradients_of_dilation(axes):
    a = np.random.randn(2, 3, 4)
    for op in (ndl.dilate, ndl.undilate):
        assert gradcheck(lambda x, op=op: op(x, axes, 1), a)
        assert gradgradcheck(lambda x, op=op: op(x, axes, 1), a)


def test_the_gradient_of_undilation_has_the_shape_of_an_axis_that_the_step_does_not_divide():
    x = ndl.Tensor(np.random.randn(5))
    ndl.undilate(x, 0, 1).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1, 0, 1, 0, 1])


def test_padding_is_numpys():
    a = np.random.randn(2, 3)
    pads = ((0, 2), (1, 0))
    np.testing.assert_array_equal(ndl.pad(a, pads, value=7.0), np.pad(a, pads, constant_values=7.0))
    assert gradcheck(lambda x: ndl.pad(x, pads), a)
    assert gradgradcheck(lambda x: ndl.pad(x, pads), a)


def test_padding_needs_a_pair_for_each_axis():
    with pytest.raises(ValueError, match=r"Pad: a pair \(before, after\) for each axis of shape \(2, 3\)"):
        ndl.pad(np.ones((2, 3)), ((1, 1),))
    with pytest.raises(ValueError, match="a width is an integer of at least 0, got -1"):
        ndl.pad(np.ones(3), ((-1, 0),))
