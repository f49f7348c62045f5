"""Homework 2, optimizers: each step against its formula, and a network that learns."""

import gc

import numpy as np
import pytest

import needle as ndl
from needle import nn


def steps(make, gradients, start):
    """Give a parameter's values after each of the gradients."""
    p = nn.Parameter(start)
    optimizer = make([p])
    values = []
    for g in gradients:
        p.grad = ndl.Tensor(g, requires_grad=False)
        optimizer.step()
        values.append(p.numpy().copy())
    return values


GRADIENTS = [np.array([0.5, -2.0, 0.0]), np.array([1.0, 1.0, 0.25]), np.array([-3.0, 0.5, 1.0])]
START = np.array([1.0, -1.0, 2.0])


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.0), (0.0, 0.1), (0.9, 0.1)])
def test_sgd_follows_the_averaged_gradient(momentum, decay):
    p, u, expected = START.copy(), 0, []
    for g in GRADIENTS:
        u = momentum * u + (1 - momentum) * (g + decay * p)
        p = p - 0.1 * u
        expected.append(p)
    make = lambda ps: ndl.optim.SGD(ps, lr=0.1, momentum=momentum, weight_decay=decay)  # noqa: E731
    np.testing.assert_allclose(steps(make, GRADIENTS, START), expected, rtol=1e-12)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_divides_by_the_root_of_the_averaged_square(decay):
    p, m, v, expected = START.copy(), 0, 0, []
    for t, g in enumerate(GRADIENTS, 1):
        g = g + decay * p
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        p = p - 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        expected.append(p)
    make = lambda ps: ndl.optim.Adam(ps, lr=0.01, weight_decay=decay)  # noqa: E731
    np.testing.assert_allclose(steps(make, GRADIENTS, START), expected, rtol=1e-12)


def test_reset_grad_lets_go_of_the_gradients():
    p = nn.Parameter([1.0])
    (p * p).sum().backward()
    ndl.optim.SGD([p]).reset_grad()
    assert p.grad is None


@pytest.mark.parametrize("make", [ndl.optim.SGD, ndl.optim.Adam])
def test_a_step_leaves_gradients_and_the_number_of_tensors_as_they_are(make):
    model, x = nn.Linear(3, 2), ndl.init.randn(4, 3)
    optimizer = make(model.parameters(), lr=0.1, weight_decay=0.1)

    def step():
        optimizer.reset_grad()
        (model(x) ** 2).sum().backward(create_graph=False)
        before = model.weight.grad.numpy().copy()
        optimizer.step()
        np.testing.assert_array_equal(model.weight.grad.numpy(), before)

    step()
    gc.collect()  # what other tests left in cycles
    before = ndl.autograd.TENSOR_COUNTER
    for _ in range(5):
        step()
    after = ndl.autograd.TENSOR_COUNTER
    assert after == before


@pytest.mark.parametrize(("make", "lr"), [(ndl.optim.SGD, 0.5), (ndl.optim.Adam, 0.02)])
def test_a_network_learns_the_exclusive_or(make, lr):
    X, y = ndl.Tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], dtype="float32"), ndl.Tensor([0, 1, 1, 0])
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer, loss_fn = make(model.parameters(), lr=lr), nn.SoftmaxLoss()
    for _ in range(300):
        optimizer.reset_grad()
        loss_fn(model(X), y).backward(create_graph=False)
        optimizer.step()
    assert model(X).numpy().argmax(axis=1).tolist() == [0, 1, 1, 0]
