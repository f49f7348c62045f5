"""Homework 1, forward: each op computes what NumPy does."""

import numpy as np
import pytest

import needle as ndl

A = np.array([[0.5, -2.0, 4.0], [1.5, 3.0, -1.0]])
B = np.array([[2.0, 0.25, -1.0], [-4.0, 5.0, 0.5]])
ROWS = np.arange(24.0).reshape(2, 3, 4)

UNARY = {
    "add_scalar": (lambda x: x + 3, A + 3),
    "mul_scalar": (lambda x: x * -2.5, A * -2.5),
    "divide_scalar": (lambda x: x / 4, A / 4),
    "power_scalar": (lambda x: x**3, A**3),
    "negate": (lambda x: -x, -A),
    "log of exp": (lambda x: ndl.log(ndl.exp(x)), A),
    "exp": (ndl.exp, np.exp(A)),
    "relu": (ndl.relu, np.maximum(A, 0)),
    "tanh": (ndl.tanh, np.tanh(A)),
    "reshape": (lambda x: x.reshape((3, 2)), A.reshape(3, 2)),
    "transpose": (lambda x: x.transpose(), A.T),
    "sum": (lambda x: x.sum(), A.sum()),
    "sum over rows": (lambda x: x.sum(axes=0), A.sum(axis=0)),
    "sum over both": (lambda x: x.sum(axes=(0, 1)), A.sum()),
    "broadcast": (lambda x: x.broadcast_to((4, 2, 3)), np.broadcast_to(A, (4, 2, 3))),
}

BINARY = {
    "add": (lambda x, y: x + y, A + B),
    "subtract": (lambda x, y: x - y, A - B),
    "multiply": (lambda x, y: x * y, A * B),
    "divide": (lambda x, y: x / y, A / B),
    "matmul": (lambda x, y: x @ y.transpose(), A @ B.T),
}


@pytest.mark.parametrize("name", UNARY)
def test_an_op_of_one_tensor_gives_numpys_result(name):
    f, expected = UNARY[name]
    np.testing.assert_allclose(f(ndl.Tensor(A)).numpy(), expected, rtol=1e-13)


@pytest.mark.parametrize("name", BINARY)
def test_an_op_of_two_tensors_gives_numpys_result(name):
    f, expected = BINARY[name]
    np.testing.assert_allclose(f(ndl.Tensor(A), ndl.Tensor(B)).numpy(), expected, rtol=1e-13)


def test_power_of_two_tensors():
    np.testing.assert_allclose(ndl.power(ndl.Tensor([2.0, 3.0]), ndl.Tensor([3.0, 0.5])).numpy(), [8, 3**0.5])


@pytest.mark.parametrize(("axes", "order"), [(None, (0, 2, 1)), ((0, 1), (1, 0, 2)), ((0, 2), (2, 1, 0))])
def test_transpose_swaps_two_axes_and_by_default_the_last(axes, order):
    np.testing.assert_array_equal(ndl.transpose(ndl.Tensor(ROWS), axes).numpy(), ROWS.transpose(order))


@pytest.mark.parametrize(
    ("left", "right"), [((3, 2), (2, 4)), ((5, 3, 2), (5, 2, 4)), ((5, 3, 2), (2, 4)), ((3, 2), (6, 5, 2, 4))]
)
def test_matmul_works_on_batches_and_broadcasts_either_side(left, right):
    a, b = np.random.randn(*left), np.random.randn(*right)
    np.testing.assert_allclose((ndl.Tensor(a) @ ndl.Tensor(b)).numpy(), a @ b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("axes", [None, 0, 1, -1, (0, 2), (1, 2), (0, 1, 2)])
def test_summation_takes_one_axis_several_or_all(axes):
    np.testing.assert_allclose(ndl.summation(ndl.Tensor(ROWS), axes).numpy(), ROWS.sum(axis=axes))


def test_numbers_stand_on_either_side():
    x = ndl.Tensor([1.0, 2.0, 4.0])
    for result, expected in ((1 - x, [0, -1, -3]), (2 / x, [2, 1, 0.5]), (2**x, [2, 4, 16]), (3 * x, [3, 6, 12])):
        np.testing.assert_allclose(result.numpy(), expected)
