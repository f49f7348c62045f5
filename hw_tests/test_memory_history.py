"""The warning for a value that carries its history from step to step."""

import inspect
import warnings

import numpy as np
import pytest

import needle as ndl
from needle.memory import HistoryWarning, history, history_warning


@pytest.fixture(autouse=True)
def fresh():
    history_warning(True)
    yield
    history_warning(True)


class Training:
    """A loop with one thing in it that may carry its history."""

    def __init__(self, create_graph=False):
        self.create_graph = create_graph
        self.w = ndl.nn.Parameter(np.ones((3, 2), dtype="float32"))
        self.optimizer = ndl.optim.SGD([self.w], lr=1e-3)
        self.total = 0.0

    def loss(self):
        return ((ndl.Tensor(np.ones((4, 3), dtype="float32"), requires_grad=False) @ self.w) ** 2).sum()

    def run(self, steps, add=lambda self, loss: None):
        for _ in range(steps):
            loss = self.loss()
            self.optimizer.reset_grad()
            loss.backward(create_graph=self.create_graph)
            self.optimizer.step()
            add(self, loss)


def accumulate(training, loss):
    training.total = training.total + loss


@pytest.mark.parametrize("create_graph", [False, True])
def test_an_accumulated_loss_is_warned_of_once_with_its_line(create_graph):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Training(create_graph).run(300, accumulate)
    (warning,) = [w for w in caught if w.category is HistoryWarning]
    lines, first = inspect.getsourcelines(accumulate)
    assert warning.filename == __file__
    assert warning.lineno == first + 1
    text = str(warning.message)
    assert lines[1].strip() in text
    assert "after 34 steps a graph of" in text and ".detach()" in text and ".numpy()" in text


def test_a_value_that_is_added_without_its_graph_is_not_warned_of():
    def add(training, loss):
        training.total = training.total + loss.detach()

    Training(create_graph=True).run(140, add)


def test_a_deep_network_is_not_warned_of():
    class Deep(Training):
        def loss(self):
            h = super().loss()
            for _ in range(200):
                h = h * 1.0
            return h

    Deep(create_graph=True).run(140, lambda training, loss: (loss * 2).item())


def test_losses_that_are_kept_side_by_side_are_no_history():
    kept = []
    Training(create_graph=True).run(140, lambda training, loss: kept.append(loss))
    assert len(kept) == 140


def test_an_operation_on_a_deep_loss_after_the_gradients_were_reset_is_not_warned_of():
    class Late(Training):
        def loss(self):
            h = super().loss()
            for _ in range(200):
                h = h * 1.0
            return h

        def run(self, steps):
            for _ in range(steps):
                loss = self.loss()
                self.optimizer.reset_grad()
                scaled = loss * 0.5
                scaled.backward()
                self.optimizer.step()

    Late().run(140)


def test_a_deep_constant_part_that_is_used_in_each_step_is_not_warned_of():
    scale = ndl.Tensor(np.float32(1.0))
    for _ in range(40):
        scale = scale * 1.0

    def add(training, loss):
        training.total = loss * scale

    Training().run(140, add)


def test_the_warning_can_be_turned_off():
    history_warning(False)
    Training().run(140, accumulate)


def test_nothing_is_left_switched_on():
    Training().run(140)
    assert ndl.autograd._new is object.__new__
    history_warning(False)
    Training().run(34, accumulate)
    assert ndl.autograd._new is object.__new__


def test_it_looks_at_few_steps(monkeypatch):
    looked = []
    look = history.look
    monkeypatch.setattr(history, "look", lambda watch, steps: looked.append(steps) or look(watch, steps))
    Training().run(300)
    assert looked == [32, 64, 128, 256]
