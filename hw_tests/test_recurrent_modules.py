"""Recurrent layers, held to PyTorch, and what they refuse."""

import numpy as np
import pytest

import needle as ndl
from needle import nn

STEPS, BATCH, INPUT, HIDDEN = 4, 3, 5, 6


def sequence(dtype="float64", steps=STEPS):
    return np.random.randn(steps, BATCH, INPUT).astype(dtype)


def state(layers, dtype="float64"):
    return np.random.randn(layers, BATCH, HIDDEN).astype(dtype)


def weights_of(cells, other, bias):
    """Pairs of needle's and torch's parameters, layer by layer."""
    pairs = []
    for k, cell in enumerate(cells):
        suffix = f"_l{k}" if hasattr(other, "weight_ih_l0") else ""
        pairs += [
            (cell.W_ih, getattr(other, f"weight_ih{suffix}"), np.transpose),
            (cell.W_hh, getattr(other, f"weight_hh{suffix}"), np.transpose),
        ]
        if bias:
            pairs += [
                (cell.bias_ih, getattr(other, f"bias_ih{suffix}"), np.asarray),
                (cell.bias_hh, getattr(other, f"bias_hh{suffix}"), np.asarray),
            ]
    return pairs


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("kind", ["RNN tanh", "RNN relu", "GRU", "LSTM"])
def test_a_stack_is_that_of_torch(torch, kind, layers, bias, given, dtype):
    from torch_reference import assert_agree

    name, *nonlinearity = kind.split()
    settings = {"nonlinearity": nonlinearity[0]} if nonlinearity else {}
    mine = getattr(nn, name)(INPUT, HIDDEN, layers, bias=bias, dtype=dtype, **settings)
    other = getattr(torch.nn, name)(INPUT, HIDDEN, layers, bias=bias, dtype=getattr(torch, dtype), **settings)
    inputs = [sequence(dtype)]
    if given:
        inputs += [state(layers, dtype) for _ in range(2 if name == "LSTM" else 1)]

    def run(module):
        def apply(x, *states):
            h = None if not states else states if name == "LSTM" else states[0]
            output, last = module(x, h)
            return (output, *last) if name == "LSTM" else (output, last)

        return apply

    cells = getattr(mine, f"{name.lower()}_cells")
    assert_agree(run(mine), run(other), inputs, weights_of(cells, other, bias))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("kind", ["RNN tanh", "RNN relu", "GRU", "LSTM"])
def test_a_cell_is_that_of_torch(torch, kind, bias, given, dtype):
    from torch_reference import assert_agree

    name, *nonlinearity = kind.split()
    settings = {"nonlinearity": nonlinearity[0]} if nonlinearity else {}
    mine = getattr(nn, f"{name}Cell")(INPUT, HIDDEN, bias=bias, dtype=dtype, **settings)
    other = getattr(torch.nn, f"{name}Cell")(INPUT, HIDDEN, bias=bias, dtype=getattr(torch, dtype), **settings)
    inputs = [sequence(dtype)[0]]
    if given:
        inputs += [state(1, dtype)[0] for _ in range(2 if name == "LSTM" else 1)]

    def run(module):
        def apply(x, *states):
            return module(x, None if not states else states if name == "LSTM" else states[0])

        return apply

    assert_agree(run(mine), run(other), inputs, weights_of([mine], other, bias))


def test_a_sequence_is_its_cell_step_by_step():
    lstm, x = nn.LSTM(INPUT, HIDDEN), ndl.Tensor(sequence("float32"))
    output, (h, c) = lstm(x)
    at = None
    for t in range(STEPS):
        at = lstm.lstm_cells[0](x[t], at)
        np.testing.assert_allclose(output.numpy()[t], at[0].numpy(), atol=1e-6)
    np.testing.assert_allclose(h.numpy()[0], at[0].numpy(), atol=1e-6)
    np.testing.assert_allclose(c.numpy()[0], at[1].numpy(), atol=1e-6)


def test_parameters_are_drawn_in_the_order_of_the_course():
    np.random.seed(5)
    cells = nn.LSTM(INPUT, HIDDEN, num_layers=2).lstm_cells
    np.random.seed(5)
    for cell, size in zip(cells, (INPUT, HIDDEN)):
        for p, shape in (
            (cell.W_ih, (size, 4 * HIDDEN)),
            (cell.W_hh, (HIDDEN, 4 * HIDDEN)),
            (cell.bias_ih, (4 * HIDDEN,)),
            (cell.bias_hh, (4 * HIDDEN,)),
        ):
            np.testing.assert_allclose(p.numpy(), (np.random.rand(*shape) * 2 - 1) / np.sqrt(HIDDEN), atol=1e-7)


def test_a_state_dict_names_every_layers_weights():
    names = sorted(nn.GRU(2, 3, num_layers=2).state_dict())
    assert names == [f"gru_cells.{k}.{n}" for k in (0, 1) for n in ("W_hh", "W_ih", "bias_hh", "bias_ih")]


@pytest.mark.parametrize("module", [nn.RNN, nn.GRU])
def test_a_state_of_the_wrong_layer_count_is_an_error_that_says_so(module):
    with pytest.raises(ValueError, match=r"a state h0 of shape \(2, 3, 6\) \(layers, batch, hidden\) is needed, got"):
        module(INPUT, HIDDEN, num_layers=2)(ndl.Tensor(sequence("float32")), ndl.Tensor(state(1, "float32")))


def test_an_lstm_wants_a_pair_of_fitting_states():
    lstm, x = nn.LSTM(INPUT, HIDDEN), ndl.Tensor(sequence("float32"))
    with pytest.raises(TypeError, match=r"LSTM: the state is a pair \(h, c\), got Tensor"):
        lstm(x, ndl.Tensor(state(1)))
    with pytest.raises(ValueError, match=r"LSTM: a state c0 of shape \(1, 3, 6\)"):
        lstm(x, (ndl.Tensor(state(1)), ndl.Tensor(state(2))))


def test_wrong_inputs_are_errors_that_say_so():
    with pytest.raises(
        ValueError, match=r"RNN: an input of shape \(seq, batch, 5\), seq at least 1, is needed, got \(4, 5\)"
    ):
        nn.RNN(INPUT, HIDDEN)(ndl.init.rand(4, 5))
    with pytest.raises(ValueError, match=r"seq at least 1, is needed, got \(0, 2, 5\)"):
        nn.RNN(INPUT, HIDDEN)(ndl.init.rand(0, 2, 5))
    with pytest.raises(ValueError, match=r"LSTMCell: an input of shape \(batch, 5\) is needed, got \(2, 4\)"):
        nn.LSTMCell(INPUT, HIDDEN)(ndl.init.rand(2, 4))
    with pytest.raises(ValueError, match=r"GRUCell: a state h of shape \(2, 6\) is needed, got \(3, 6\)"):
        nn.GRUCell(INPUT, HIDDEN)(ndl.init.rand(2, 5), ndl.init.rand(3, 6))
    with pytest.raises(ValueError, match="RNNCell: nonlinearity is one of tanh, relu, got 'gelu'"):
        nn.RNNCell(INPUT, HIDDEN, nonlinearity="gelu")
    with pytest.raises(ValueError, match="LSTM: num_layers is a positive integer, got 0"):
        nn.LSTM(INPUT, HIDDEN, num_layers=0)
