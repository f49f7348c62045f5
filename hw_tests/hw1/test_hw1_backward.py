"""Homework 1, backward: each op's gradient, the topological sort, and reverse mode itself."""

import numpy as np
import pytest
from homework_gradients import assert_gradients_are_right, random

import needle as ndl


def positive(*shape):
    return ndl.Tensor(np.random.rand(*shape) + 0.5)


GRADIENTS = {
    "add": (lambda a, b: a + b, lambda: (random(3, 4), random(3, 4))),
    "subtract": (lambda a, b: a - b, lambda: (random(3, 4), random(3, 4))),
    "multiply": (lambda a, b: a * b, lambda: (random(3, 4), random(3, 4))),
    "divide": (lambda a, b: a / b, lambda: (random(3, 4), positive(3, 4))),
    "power": (lambda a, b: a**b, lambda: (positive(3, 4), random(3, 4))),
    "add a number": (lambda a: a + 2, lambda: (random(3),)),
    "multiply by a number": (lambda a: a * -3, lambda: (random(3),)),
    "divide by a number": (lambda a: a / 7, lambda: (random(3),)),
    "power of a number": (lambda a: a**3, lambda: (random(3),)),
    "negate": (lambda a: -a, lambda: (random(3),)),
    "log": (ndl.log, lambda: (positive(4),)),
    "exp": (ndl.exp, lambda: (random(4),)),
    "relu": (ndl.relu, lambda: (ndl.Tensor([-2.0, -0.5, 0.5, 3.0]),)),
    "tanh": (ndl.tanh, lambda: (random(4),)),
    "reshape": (lambda a: a.reshape((2, 6)), lambda: (random(3, 4),)),
    "transpose": (lambda a: a.transpose((0, 2)), lambda: (random(2, 3, 4),)),
    "sum": (lambda a: a.sum(), lambda: (random(2, 3),)),
    "sum over an axis": (lambda a: a.sum(axes=1), lambda: (random(2, 3, 4),)),
    "sum over two axes": (lambda a: a.sum(axes=(0, 2)), lambda: (random(2, 3, 4),)),
    "broadcast a row": (lambda a: a.broadcast_to((5, 3)), lambda: (random(1, 3),)),
    "broadcast a column": (lambda a: a.broadcast_to((3, 5)), lambda: (random(3, 1),)),
    "broadcast to more axes": (lambda a: a.broadcast_to((4, 2, 3)), lambda: (random(3),)),
    "matmul": (lambda a, b: a @ b, lambda: (random(3, 2), random(2, 4))),
    "matmul of batches": (lambda a, b: a @ b, lambda: (random(5, 3, 2), random(5, 2, 4))),
    "matmul with a shared right side": (lambda a, b: a @ b, lambda: (random(5, 3, 2), random(2, 4))),
    "matmul with a shared left side": (lambda a, b: a @ b, lambda: (random(3, 2), random(6, 5, 2, 4))),
    "logsumexp": (lambda a: ndl.logsumexp(a, axes=(1,)), lambda: (random(3, 4),)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_the_gradient_is_the_measured_slope(name):
    f, inputs = GRADIENTS[name]
    assert_gradients_are_right(f, *inputs())


def test_a_chain_of_ops_has_the_chain_rules_gradient():
    assert_gradients_are_right(
        lambda x, w, b: ndl.relu(x @ w + b.broadcast_to((4, 3))).sum(axes=1) ** 2, random(4, 5), random(5, 3), random(3)
    )


# --------------------------------------------------------------------------------------------------- topological sort


def test_the_sort_is_post_order_with_inputs_from_left_to_right():
    a, b = ndl.Tensor([2.0]), ndl.Tensor([3.0])
    c = a * b
    d = c + a
    assert ndl.autograd.find_topo_sort([d]) == [a, b, c, d]


def test_a_tensor_that_is_used_twice_is_listed_once():
    a = ndl.Tensor([1.0])
    b = a + a
    assert [float(node) for node in ndl.autograd.find_topo_sort([b * b])] == [1, 2, 4]


def test_subtraction_is_addition_of_the_negative():
    a, b = ndl.Tensor([5.0]), ndl.Tensor([3.0])
    order = ndl.autograd.find_topo_sort([a - b])
    assert [type(node.op).__name__ for node in order] == ["NoneType", "NoneType", "Negate", "EWiseAdd"]


def test_a_deep_graph_is_sorted_without_recursion():
    x = ndl.Tensor([1.0])
    y = x
    for _ in range(20_000):
        y = y + 1
    assert len(ndl.autograd.find_topo_sort([y])) == 20_001


# -------------------------------------------------------------------------------------------------------- reverse mode


def test_what_arrives_along_several_paths_is_added():
    x = ndl.Tensor([3.0])
    y = x * x + x * 5 + x
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), [2 * 3 + 5 + 1])


def test_a_gradient_can_be_differentiated_again():
    x = ndl.Tensor([2.0])
    (x**4).backward()
    x.grad.backward()
    np.testing.assert_allclose(x.grad.numpy(), [12 * 2.0**2])


def test_the_gradient_of_a_gradient_in_two_variables():
    x, y = ndl.Tensor([2.0]), ndl.Tensor([3.0])
    (x * x * y + x * y).backward()
    x.grad.backward()  # of 2 x y + y
    np.testing.assert_allclose(x.grad.numpy(), [2 * 3.0])
    np.testing.assert_allclose(y.grad.numpy(), [2 * 2.0 + 1])


def test_without_a_graph_the_gradients_are_the_same_and_constants():
    x, w = random(4, 3), random(3, 2)
    loss = lambda: (ndl.relu(x @ w) ** 2).sum()  # noqa: E731
    loss().backward()
    expected = x.grad.numpy().copy(), w.grad.numpy().copy()
    loss().backward(create_graph=False)
    np.testing.assert_allclose(x.grad.numpy(), expected[0], rtol=1e-14)
    np.testing.assert_allclose(w.grad.numpy(), expected[1], rtol=1e-14)
    assert x.grad.is_leaf() and not x.grad.requires_grad


def test_compute_gradient_of_variables_is_backward():
    x = ndl.Tensor([1.0, 2.0])
    y = x * x
    ndl.autograd.compute_gradient_of_variables(y, ndl.Tensor([1.0, 10.0]))
    np.testing.assert_allclose(x.grad.numpy(), [2, 40])
