"""Homework 1, a network by hand: the softmax loss and an epoch of gradient descent on two layers."""

import numpy as np
from homework_gradients import assert_gradients_are_right, random

import needle as ndl
from apps.simple_ml import nn_epoch, softmax_loss


def test_the_loss_of_certain_and_right_is_zero_and_of_certain_and_wrong_the_distance():
    Z = ndl.Tensor([[100.0, 0.0], [100.0, 0.0]])
    np.testing.assert_allclose(softmax_loss(Z, ndl.Tensor([[1.0, 0.0], [0.0, 1.0]])).numpy(), (0 + 100) / 2)


def test_the_loss_has_the_measured_slopes():
    y = ndl.Tensor(np.eye(4)[[2, 0, 3]], requires_grad=False)
    assert_gradients_are_right(lambda Z: softmax_loss(Z, y), random(3, 4))


def test_one_batch_moves_the_weights_against_their_gradients():
    X, y = np.random.randn(20, 5), np.random.randint(3, size=20)
    W1, W2 = random(5, 7), random(7, 3)
    softmax_loss(ndl.relu(ndl.Tensor(X) @ W1) @ W2, ndl.Tensor(np.eye(3)[y])).backward()
    new1, new2 = nn_epoch(X, y, W1, W2, lr=0.5, batch=20)
    np.testing.assert_allclose(new1.numpy(), W1.numpy() - 0.5 * W1.grad.numpy(), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(new2.numpy(), W2.numpy() - 0.5 * W2.grad.numpy(), rtol=1e-12, atol=1e-14)


def test_epochs_separate_what_can_be_separated():
    y = np.arange(90) % 3
    X = np.eye(3)[y] + 0.1 * np.random.randn(90, 3)
    W1, W2 = random(3, 20), random(20, 3)
    for _ in range(20):
        W1, W2 = nn_epoch(X, y, W1, W2, lr=0.2, batch=10)
    assert ((np.maximum(X @ W1.numpy(), 0) @ W2.numpy()).argmax(axis=1) == y).all()
