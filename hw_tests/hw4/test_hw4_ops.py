"""Homework 4, ops: flip, dilation, padding, convolution, and tuples of tensors."""

import numpy as np
import pytest
from homework_gradients import assert_gradients_are_right, random

import needle as ndl

A = np.arange(1.0, 25.0).reshape(2, 3, 4)


@pytest.mark.parametrize("axes", [(0,), (2,), (0, 1), (0, 1, 2), (-1,)])
def test_flip_turns_axes_around(axes):
    np.testing.assert_array_equal(ndl.flip(ndl.Tensor(A), axes).numpy(), np.flip(A, axes))


@pytest.mark.parametrize("dilation", [0, 1, 2])
@pytest.mark.parametrize("axes", [(0,), (2,), (0, 1), (0, 1, 2)])
def test_dilation_puts_zeros_behind_each_element_and_undilation_takes_them_away(axes, dilation):
    step = dilation + 1
    expected = np.zeros([size * step if axis in axes else size for axis, size in enumerate(A.shape)])
    expected[tuple([slice(None, None, step if axis in axes else 1) for axis in range(3)])] = A
    dilated = ndl.dilate(ndl.Tensor(A), axes, dilation)
    np.testing.assert_array_equal(dilated.numpy(), expected)
    np.testing.assert_array_equal(ndl.undilate(dilated, axes, dilation).numpy(), A)


def test_dilation_ignores_an_axis_that_the_tensor_lacks():
    np.testing.assert_array_equal(ndl.dilate(ndl.Tensor(A), (1, 5), 1).numpy()[:, ::2], A)
    np.testing.assert_array_equal(ndl.dilate(ndl.Tensor(A), (3,), 1).numpy(), A)


def test_padding_puts_zeros_around():
    pads = ((0, 1), (2, 0), (1, 1))
    np.testing.assert_array_equal(ndl.pad(ndl.Tensor(A), pads).numpy(), np.pad(A, pads))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_stack_makes_a_new_axis_and_split_takes_it_apart(axis):
    parts = list(np.random.randn(5, 2, 3))
    stacked = ndl.stack([ndl.Tensor(part) for part in parts], axis=axis)
    np.testing.assert_array_equal(stacked.numpy(), np.stack(parts, axis=axis))
    again = ndl.split(stacked, axis=axis)
    assert len(again) == 5
    for tensor, part in zip(again, parts):
        np.testing.assert_array_equal(tensor.numpy(), part)


def test_a_tuple_holds_its_tensors_and_gives_them_back():
    made = ndl.make_tuple(ndl.Tensor([1.0]), ndl.Tensor([2.0, 3.0]))
    assert len(made) == 2
    np.testing.assert_array_equal(ndl.ops.tuple_get_item(made, 0).numpy(), [1])
    np.testing.assert_array_equal(made[1].numpy(), [2, 3])


def test_fused_add_scalars_adds_each_of_two_numbers():
    first, second = ndl.ops.fused_add_scalars(ndl.Tensor(A), 10, -1)
    np.testing.assert_array_equal(first.numpy(), A + 10)
    np.testing.assert_array_equal(second.numpy(), A - 1)


def products_of_items(value):
    """Give a tensor that depends on two items of a tuple, one of them twice, and not on the others."""
    return value[0] * value[2] + value[0]


GRADIENTS = {
    "flip": (lambda a: ndl.flip(a, (0, 2)), lambda: (random(2, 3, 4),)),
    "dilate": (lambda a: ndl.dilate(a, (1, 2), 2), lambda: (random(2, 3, 2),)),
    "undilate": (lambda a: ndl.undilate(a, (0, 1), 1), lambda: (random(4, 6),)),
    "pad": (lambda a: ndl.pad(a, ((1, 0), (0, 2))), lambda: (random(2, 3),)),
    "stack": (lambda *parts: ndl.stack(parts, axis=1), lambda: [random(2, 3) for _ in range(3)]),
    "split": (lambda a: products_of_items(ndl.split(a, axis=1)), lambda: (random(2, 4, 3),)),
    "make_tuple": (lambda *parts: products_of_items(ndl.make_tuple(*parts)), lambda: [random(3) for _ in range(3)]),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_the_gradient_is_the_measured_slope(name):
    f, inputs = GRADIENTS[name]
    assert_gradients_are_right(f, *inputs())


# --------------------------------------------------------------------------------------------------------- convolution


def convolve(x, w, stride, padding):
    """The definition, one output pixel at a time."""
    x = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    k, m = w.shape[:2]
    rows, columns = (x.shape[1] - k) // stride + 1, (x.shape[2] - m) // stride + 1
    y = np.empty((x.shape[0], rows, columns, w.shape[3]))
    for i, j in np.ndindex(rows, columns):
        window = x[:, i * stride : i * stride + k, j * stride : j * stride + m]
        y[:, i, j] = np.einsum("nkmi,kmio->no", window, w)
    return y


PROBLEMS = [  # images, kernel, stride, padding
    ((2, 5, 5, 2), (3, 3, 2, 3), 1, 1),
    ((1, 5, 4, 2), (3, 3, 2, 1), 1, 0),
    ((2, 6, 6, 1), (3, 3, 1, 2), 2, 1),
    ((1, 7, 6, 1), (2, 2, 1, 2), 3, 0),
    ((1, 4, 4, 2), (1, 1, 2, 2), 2, 0),
    ((1, 3, 3, 1), (3, 3, 1, 1), 1, 2),
]


@pytest.mark.parametrize(("images", "kernel", "stride", "padding"), PROBLEMS)
def test_convolution_is_its_definition(images, kernel, stride, padding):
    x, w = np.random.randn(*images), np.random.randn(*kernel)
    y = ndl.conv(ndl.Tensor(x), ndl.Tensor(w), stride=stride, padding=padding)
    np.testing.assert_allclose(y.numpy(), convolve(x, w, stride, padding), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("images", "kernel", "stride", "padding"), PROBLEMS)
def test_the_gradients_of_convolution_are_the_measured_slopes(images, kernel, stride, padding):
    assert_gradients_are_right(lambda x, w: ndl.conv(x, w, stride, padding), random(*images), random(*kernel))


def test_the_gradient_of_a_convolution_can_be_differentiated_again():
    x, w, v = random(1, 4, 4, 1), random(2, 2, 1, 1), random(1, 4, 4, 1)
    y = ndl.conv(x, w, stride=2, padding=1)
    g = np.random.randn(*y.shape)
    y.backward(ndl.Tensor(g))
    x.grad.backward(v)
    # ⟨v, ∂⟨x ⋆ w, g⟩/∂x⟩ = ⟨v ⋆ w, g⟩, which is linear in w: its slope along a unit vector is its value there.
    units = np.eye(4).reshape(4, 2, 2, 1, 1)
    expected = [(convolve(v.numpy(), unit, 2, 1) * g).sum() for unit in units]
    np.testing.assert_allclose(w.grad.numpy().ravel(), expected, rtol=1e-12, atol=1e-13)
