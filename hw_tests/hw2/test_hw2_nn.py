"""Homework 2, modules: what each computes, its parameters, and training against evaluation."""

import numpy as np
import pytest

import needle as ndl
from needle import nn


def tensor(*shape):
    return ndl.Tensor(np.random.randn(*shape).astype(np.float32))


def close(tensor, expected, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=rtol, atol=atol)


def test_linear_is_x_times_the_weight_plus_the_bias():
    layer, x = nn.Linear(5, 3), tensor(4, 5)
    assert layer.weight.shape == (5, 3) and layer.bias.shape == (1, 3)
    close(layer(x), x.numpy() @ layer.weight.numpy() + layer.bias.numpy())


def test_linear_draws_its_weight_before_its_bias():
    np.random.seed(3)
    layer = nn.Linear(5, 3)
    np.random.seed(3)
    close(layer.weight, ndl.init.kaiming_uniform(5, 3).numpy(), atol=0)
    close(layer.bias, ndl.init.kaiming_uniform(3, 1).reshape((1, 3)).numpy(), atol=0)


def test_linear_without_a_bias_has_one_parameter():
    layer, x = nn.Linear(5, 3, bias=False), tensor(4, 5)
    assert len(layer.parameters()) == 1
    close(layer(x), x.numpy() @ layer.weight.numpy())


def test_flatten_keeps_the_batch_axis():
    x = tensor(2, 3, 4, 5)
    close(nn.Flatten()(x), x.numpy().reshape(2, 60))


def test_sequential_applies_its_modules_in_order():
    first, second, x = nn.Linear(4, 3), nn.Linear(3, 2), tensor(5, 4)
    close(nn.Sequential(first, nn.ReLU(), second)(x), second(ndl.relu(first(x))).numpy())


def test_residual_adds_its_input():
    layer, x = nn.Linear(4, 4), tensor(3, 4)
    close(nn.Residual(layer)(x), x.numpy() + layer(x).numpy())


def test_softmax_loss_takes_integer_labels():
    logits, y = tensor(6, 4), np.array([0, 3, 1, 1, 2, 0])
    Z = logits.numpy()
    log_probabilities = Z - np.log(np.exp(Z).sum(axis=1, keepdims=True))
    close(nn.SoftmaxLoss()(logits, ndl.Tensor(y)), -log_probabilities[np.arange(6), y].mean())


def test_layer_norm_gives_each_row_mean_0_and_biased_variance_1():
    x = tensor(4, 6)
    a = x.numpy()
    close(nn.LayerNorm1d(6)(x), (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5), atol=1e-5)


def test_batch_norm_normalises_columns_in_training_and_remembers_their_statistics():
    norm, x = nn.BatchNorm1d(3, momentum=0.25), tensor(8, 3)
    a = x.numpy()
    close(norm(x), (a - a.mean(0)) / np.sqrt(a.var(0) + 1e-5), atol=1e-5)
    close(norm.running_mean, 0.25 * a.mean(0))
    close(norm.running_var, 0.75 + 0.25 * a.var(0))


def test_batch_norm_uses_what_it_remembers_in_evaluation():
    norm = nn.BatchNorm1d(3)
    for _ in range(5):
        norm(tensor(8, 3))
    norm.eval()
    mean, var, x = norm.running_mean.numpy().copy(), norm.running_var.numpy().copy(), tensor(2, 3)
    close(norm(x), (x.numpy() - mean) / np.sqrt(var + 1e-5), atol=1e-5)
    close(norm.running_mean, mean, atol=0)


def test_running_statistics_hold_no_graph_and_are_no_parameters():
    norm = nn.BatchNorm1d(3)
    norm(nn.Linear(2, 3)(tensor(8, 2)))
    assert norm.running_mean.is_leaf() and norm.running_var.is_leaf()
    assert [p.shape for p in norm.parameters()] == [(3,), (3,)]


def test_dropout_keeps_the_mean_in_training_and_everything_in_evaluation():
    layer, x = nn.Dropout(0.25), ndl.init.ones(200, 100)
    kept = layer(x).numpy()
    assert set(np.unique(kept)) == {np.float32(0), np.float32(1 / 0.75)}
    # The share of the kept is binomial, of deviation √(p(1−p)/n).
    assert abs((kept > 0).mean() - 0.75) < 5 * np.sqrt(0.75 * 0.25 / kept.size)
    layer.eval()
    close(layer(x), x.numpy(), atol=0)


@pytest.mark.parametrize(
    "make", [lambda: nn.BatchNorm1d(4), lambda: nn.LayerNorm1d(4), lambda: nn.Linear(4, 4), nn.Identity, nn.ReLU]
)
def test_gradients_reach_every_parameter_and_the_input(make):
    module, x = make(), tensor(5, 4)
    (module(x) ** 2).sum().backward(create_graph=False)
    for value in (x, *module.parameters()):
        assert value.grad.shape == value.shape and value.grad.dtype == value.dtype


def test_parameters_are_found_in_lists_and_dicts_and_each_once():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.shared = nn.Linear(2, 2)
            self.several = [self.shared, {"inner": nn.Linear(2, 2)}]

    assert len(Net().parameters()) == 4


def test_train_and_eval_reach_all_modules():
    inner = nn.Dropout()
    model = nn.Sequential(nn.Residual(nn.Sequential(inner)))
    model.eval()
    assert not inner.training
    model.train()
    assert inner.training
