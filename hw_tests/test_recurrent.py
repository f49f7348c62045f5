"""Recurrent nets: the ops that compute a whole sequence, against the same recurrence step by step."""

import tracemalloc

import numpy as np
import pytest

import needle as ndl
from needle.gradcheck import gradcheck, gradgradcheck
from needle.ops.gru import gru_by_steps
from needle.ops.lstm import lstm_by_steps
from needle.ops.rnn import rnn_by_steps

STEPS, BATCH, INPUT, HIDDEN = 3, 2, 4, 5


def arrays(gates, states=1, biases=1, steps=STEPS):
    """Random inputs, states, weights and biases, float64."""
    shapes = [(steps, BATCH, INPUT), *[(BATCH, HIDDEN)] * states]
    shapes += [(INPUT, gates * HIDDEN), (HIDDEN, gates * HIDDEN), *[(gates * HIDDEN,)] * biases]
    return [np.random.randn(*shape) for shape in shapes]


def leaves(values):
    return [ndl.Tensor(v) for v in values]


CASES = {
    "rnn tanh": (ndl.rnn, lambda *v: rnn_by_steps(*v, nonlinearity="tanh"), {"gates": 1}),
    "rnn relu": (
        lambda *v: ndl.rnn(*v, *[None] * (5 - len(v)), nonlinearity="relu"),
        lambda *v: rnn_by_steps(*v, nonlinearity="relu"),
        {"gates": 1},
    ),
    "rnn without bias": (ndl.rnn, lambda *v: rnn_by_steps(*v, nonlinearity="tanh"), {"gates": 1, "biases": 0}),
    "lstm": (ndl.lstm, lstm_by_steps, {"gates": 4, "states": 2}),
    "lstm without bias": (ndl.lstm, lstm_by_steps, {"gates": 4, "states": 2, "biases": 0}),
    "lstm of one step": (ndl.lstm, lstm_by_steps, {"gates": 4, "states": 2, "steps": 1}),
    "gru": (ndl.gru, gru_by_steps, {"gates": 3, "biases": 2}),
    "gru without bias": (ndl.gru, gru_by_steps, {"gates": 3, "biases": 0}),
    "gru of one step": (ndl.gru, gru_by_steps, {"gates": 3, "biases": 2, "steps": 1}),
}


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_whole_sequence_is_what_single_steps_give(case, create_graph):
    op, by_steps, settings = CASES[case]
    values = arrays(**settings)
    fused, stepped = leaves(values), leaves(values)
    for inputs, fn in ((fused, op), (stepped, by_steps)):
        results = as_tuple(fn(*inputs))
        np.random.seed(1)
        weighted = [(r * ndl.Tensor(np.random.randn(*r.shape), requires_grad=False)).sum() for r in results]
        sum(weighted, start=0.0).backward(create_graph=create_graph)
    for mine, expected in zip(as_tuple(op(*fused)), as_tuple(by_steps(*stepped))):
        np.testing.assert_allclose(mine.numpy(), expected.numpy(), atol=1e-13)
    for mine, expected in zip(fused, stepped):
        np.testing.assert_allclose(mine.grad.numpy(), expected.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_gradients_and_second_derivatives(case):
    op, _, settings = CASES[case]
    values = arrays(**settings)
    assert gradcheck(op, values)
    assert gradgradcheck(op, values)


@pytest.mark.parametrize("case", ["rnn tanh", "lstm", "gru"])
def test_third_derivatives(case):
    op, _, settings = CASES[case]
    values = arrays(**settings)

    def slope(*inputs):
        return ndl.grad((as_tuple(op(*inputs))[0] ** 2).sum(), inputs[0])

    assert gradgradcheck(slope, values)


@pytest.mark.parametrize("case", ["rnn tanh", "lstm", "gru"])
def test_what_needs_no_gradient_gets_none(case):
    op, _, settings = CASES[case]
    values = leaves(arrays(**settings))
    expected = leaves([v.numpy() for v in values])
    as_tuple(op(*expected))[0].sum().backward()
    for k in range(len(values)):
        inputs = [ndl.Tensor(v.numpy(), requires_grad=i == k) for i, v in enumerate(values)]
        as_tuple(op(*inputs))[0].sum().backward(create_graph=False)
        assert [x.grad is None for x in inputs] == [i != k for i in range(len(values))]
        np.testing.assert_allclose(inputs[k].grad.numpy(), expected[k].grad.numpy(), atol=1e-12)


@pytest.mark.parametrize("case", ["rnn tanh", "lstm", "gru"])
def test_nothing_grows_with_the_collector_off(case, collector_off):
    op, _, settings = CASES[case]
    values = leaves(arrays(**settings))
    counts = []
    for _ in range(4):
        as_tuple(op(*values))[0].sum().backward()
        counts.append(ndl.autograd.TENSOR_COUNTER)
    assert len(set(counts[1:])) == 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {0: (BATCH, INPUT)},
            r"lstm: a sequence \(steps, batch, input\) with at least one step is needed, got \(2, 4\)",
        ),
        ({0: (0, BATCH, INPUT)}, r"with at least one step is needed, got \(0, 2, 4\)"),
        ({1: (BATCH, HIDDEN + 1)}, r"need h0 of shape \(2, 5\), got \(2, 6\)"),
        ({2: (BATCH + 1, HIDDEN)}, r"need c0 of shape \(2, 5\), got \(3, 5\)"),
        ({3: (INPUT + 1, 4 * HIDDEN)}, r"need W_ih of shape \(4, 20\), got \(5, 20\)"),
        ({4: (HIDDEN, 3 * HIDDEN)}, r"W_hh has shape \(h, 4·h\), got \(5, 15\)"),
        ({5: (HIDDEN,)}, r"need bias of shape \(20,\), got \(5,\)"),
    ],
)
def test_shapes_that_do_not_fit_are_an_error_that_says_so(change, text):
    values = arrays(gates=4, states=2)
    for k, shape in change.items():
        values[k] = np.zeros(shape)
    with pytest.raises(ValueError, match=text):
        ndl.lstm(*values)


def test_an_unknown_nonlinearity_and_a_single_bias_are_errors():
    with pytest.raises(ValueError, match="rnn: nonlinearity is one of tanh, relu, got 'sigmoid'"):
        ndl.rnn(*arrays(gates=1), nonlinearity="sigmoid")
    with pytest.raises(ValueError, match="gru: bias_ih and bias_hh go together"):
        ndl.gru(*arrays(gates=3, biases=1))


class Probe(ndl.TensorOp):
    """The identity; when backward passes it, the bytes that Python holds are noted."""

    reads = ()

    def __init__(self, notes):
        self.notes = notes

    def compute(self, a):
        return a

    def gradient(self, out_grad, node):
        self.notes.append(tracemalloc.get_traced_memory()[0])
        return out_grad


@pytest.fixture
def _traced():
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.cpu_only("counts what NumPy allocates")
@pytest.mark.usefixtures("_traced")
def test_backward_frees_each_steps_arrays_as_it_passes():
    cell, x, notes = ndl.nn.LSTMCell(32, 64), ndl.init.rand(20, 32, 32), []
    before = tracemalloc.get_traced_memory()[0]
    h = c = None
    for t in range(20):
        h, c = cell(x[t], None if h is None else (Probe(notes)(h), c))
    held = tracemalloc.get_traced_memory()[0] - before
    h.sum().backward(create_graph=False)
    assert len(notes) == 19
    assert (-np.diff(notes) > 0.8 * held / 20).all()


@pytest.mark.cpu_only("counts what NumPy allocates")
@pytest.mark.usefixtures("_traced")
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_backward_frees_each_layers_arrays_as_it_passes(kind):
    layers, notes = [getattr(ndl.nn, kind)(48, 48) for _ in range(4)], []
    x = ndl.init.rand(40, 32, 48)
    before = tracemalloc.get_traced_memory()[0]
    for layer in layers:
        x = layer(Probe(notes)(x))[0]
    held = tracemalloc.get_traced_memory()[0] - before
    x.sum().backward(create_graph=False)
    assert len(notes) == 3  # nobody asks for the gradient of the sequence itself
    assert (-np.diff(notes) > 0.8 * held / 4).all()
