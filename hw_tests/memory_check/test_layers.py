"""No layer leaves anything behind: forward and backward, in both modes, training and evaluating."""

import gc

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.memory import node_cost, recorded_nodes


def values(*shape):
    return np.random.randn(*shape).astype("float32")


# A layer, and the array that it is applied to.
LAYERS = {
    "Linear": (lambda: nn.Linear(4, 3), values(5, 4)),
    "Flatten": (nn.Flatten, values(5, 2, 3)),
    "ReLU": (nn.ReLU, values(5, 4)),
    "Sigmoid": (nn.Sigmoid, values(5, 4)),
    "Tanh": (nn.Tanh, values(5, 4)),
    "GELU": (nn.GELU, values(5, 4)),
    "Sequential": (lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), values(5, 4)),
    "Residual": (lambda: nn.Residual(nn.Linear(4, 4)), values(5, 4)),
    "Dropout": (lambda: nn.Dropout(0.5), values(5, 4)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(4), values(5, 4)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(3), values(2, 3, 4, 4)),
    "LayerNorm1d": (lambda: nn.LayerNorm1d(4), values(5, 4)),
    "Conv": (lambda: nn.Conv(3, 4, 3), values(2, 3, 5, 5)),
    "MaxPool2d": (lambda: nn.MaxPool2d(2), values(2, 3, 4, 4)),
    "AvgPool2d": (lambda: nn.AvgPool2d(2), values(2, 3, 4, 4)),
    "RNN": (lambda: nn.RNN(3, 4, num_layers=2), values(6, 2, 3)),
    "LSTM": (lambda: nn.LSTM(3, 4, num_layers=2), values(6, 2, 3)),
    "GRU": (lambda: nn.GRU(3, 4, num_layers=2), values(6, 2, 3)),
    "Embedding": (lambda: nn.Embedding(7, 3), np.array([[1, 2], [3, 3]])),
    "TransformerLayer": (lambda: nn.TransformerLayer(8, 2, 4, 16, dropout=0.1), values(2, 5, 8)),
}


def apply(layer, array):
    result = layer(ndl.Tensor(array, requires_grad=array.dtype.kind == "f"))
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_leaves_nothing_behind(no_growth, name, create_graph):
    make, array = LAYERS[name]
    layer = make()

    def step():
        for p in layer.parameters():
            p.grad = None
        apply(layer, array).sum().backward(create_graph=create_graph)

    no_growth(step, steps=5)


@pytest.mark.parametrize("name", ["BatchNorm1d", "BatchNorm2d"])
def test_running_statistics_have_no_history(name):
    make, array = LAYERS[name]
    layer = make()
    apply(layer, array)
    for statistic in (layer.running_mean, layer.running_var):
        assert statistic.is_leaf() and not statistic.requires_grad


@pytest.mark.parametrize("name", LAYERS)
def test_evaluating_under_no_grad_records_nothing(name):
    make, array = LAYERS[name]
    layer = make()
    layer.eval()

    def evaluate():
        with ndl.no_grad():
            apply(layer, array)

    assert recorded_nodes(evaluate) == []


@pytest.mark.parametrize(
    ("name", "forward", "backward"),
    [
        # Linear is one node; its gradient: two products, a transpose for each, a sum for the bias. Its result is summed
        # here, whose gradient is a broadcast.
        ("Linear", 1, 5),
        # One node each; the gradient of a norm is one node and three to take its result apart.
        ("BatchNorm1d", 1, 4),
        ("LayerNorm1d", 1, 4),
        ("ReLU", 1, 1),
        ("Flatten", 1, 1),
    ],
)
def test_a_layer_makes_as_few_nodes_as_it_needs(name, forward, backward):
    make, array = LAYERS[name]
    layer = make()
    x = ndl.Tensor(array)
    cost = node_cost(layer, x)
    assert cost.forward_nodes <= forward, str(cost)
    assert cost.backward_nodes <= backward, str(cost)


def test_the_loss_is_one_node_and_its_gradient_another():
    logits = ndl.Tensor(values(5, 4))
    labels = ndl.Tensor(np.array([0, 1, 2, 3, 0]), requires_grad=False)
    cost = node_cost(lambda x: nn.SoftmaxLoss()(x, labels), logits)
    assert (cost.forward_nodes, cost.backward_nodes) == (1, 1), str(cost)


def test_no_layer_is_part_of_a_cycle(collector_off):
    for make, array in LAYERS.values():
        layer = make()
        apply(layer, array).sum().backward()
        del layer
    assert gc.collect() == 0
