"""Two hundred steps of training grow by nothing and leave nothing to the cyclic collector, in both modes."""

import gc

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.memory import no_growth, recorded_nodes
from needle.memory.growth import Moment

OPTIMIZERS = {
    "SGD": lambda p: ndl.optim.SGD(p, lr=0.01, weight_decay=0.01),
    "SGD with momentum": lambda p: ndl.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
    "Adam": lambda p: ndl.optim.Adam(p, lr=0.01, weight_decay=0.01),
    "AdamW": lambda p: ndl.optim.AdamW(p, lr=0.01),
}


class Training:
    """The homework's residual network on random digits, a fresh tensor for every batch."""

    def __init__(self, make_optimizer, create_graph):
        block = nn.Sequential(
            nn.Linear(8, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4, 8), nn.LayerNorm1d(8)
        )
        self.model = nn.Sequential(
            nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Residual(block), nn.ReLU(), nn.Linear(8, 5)
        )
        self.optimizer = make_optimizer(self.model.parameters())
        self.loss = nn.SoftmaxLoss()
        self.create_graph = create_graph
        self.images = np.random.randn(6, 3, 4).astype("float32")
        self.labels = np.arange(6) % 5

    def step(self):
        x, y = ndl.Tensor(self.images), ndl.Tensor(self.labels, requires_grad=False)
        loss = self.loss(self.model(x), y)
        self.optimizer.reset_grad()
        loss.backward(create_graph=self.create_graph)
        self.optimizer.clip_grad_norm(1.0)
        self.optimizer.step()


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_two_hundred_steps_leave_nothing_behind_and_nothing_to_the_collector(name, create_graph, collector_off):
    training = Training(OPTIMIZERS[name], create_graph)
    for _ in range(3):
        training.step()
    gc.collect()
    before = Moment()
    gc.collect()
    for _ in range(200):
        training.step()
    unreachable = gc.collect()
    after = Moment()
    assert (after.count - before.count, after.bytes - before.bytes, unreachable) == (0, 0, 0)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_of_an_optimizer_records_nothing(name):
    training = Training(OPTIMIZERS[name], create_graph=True)
    training.step()
    training.loss(training.model(ndl.Tensor(training.images)), ndl.Tensor(training.labels)).backward()
    assert recorded_nodes(training.optimizer.step) == []
    assert recorded_nodes(lambda: training.optimizer.clip_grad_norm(1e-3)) == []


def test_a_recurrent_model_that_carries_its_state_detached_leaves_nothing_behind():
    model, head = nn.LSTM(3, 4), nn.Linear(4, 2)
    optimizer = ndl.optim.SGD(model.parameters() + head.parameters(), lr=0.01)
    batch, labels = np.random.randn(5, 2, 3).astype("float32"), np.array([0, 1] * 5)
    state = None

    @no_growth(steps=20)
    def step():
        nonlocal state
        out, (h, c) = model(ndl.Tensor(batch), state)
        state = (h.detach(), c.detach())
        loss = nn.SoftmaxLoss()(head(out.reshape((10, 4))), ndl.Tensor(labels, requires_grad=False))
        optimizer.reset_grad()
        loss.backward(create_graph=False)
        optimizer.step()

    step()


def test_an_evaluation_leaves_nothing_behind():
    training = Training(OPTIMIZERS["SGD"], create_graph=False)
    training.model.eval()
    correct = 0

    @no_growth(steps=20)
    def evaluate():
        nonlocal correct
        logits = training.model(ndl.Tensor(training.images))
        correct += int((logits.numpy().argmax(axis=1) == training.labels).sum())

    evaluate()
    assert 0 <= correct <= 22 * 6


def test_gradients_of_gradients_leave_nothing_behind():
    w = ndl.Tensor(np.random.randn(4, 3))

    @no_growth(steps=20)
    def step():
        first = ndl.grad((ndl.tanh(w) ** 3).sum(), w)
        (first * first).sum().backward(create_graph=False)

    step()
