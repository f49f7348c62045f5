"""Homework 4, text: recurrent cells and nets, embeddings, a corpus in batches, the language model and its training."""

import numpy as np
import pytest
from homework_gradients import assert_gradients_are_right, random

import needle as ndl
from apps.models import LanguageModel
from apps.simple_ml import epoch_general_ptb, evaluate_ptb, train_ptb
from needle import nn
from needle.data import Corpus, Dictionary, batchify, get_batch

SEQ, BATCH, INPUT, HIDDEN = 4, 3, 5, 2


def close(tensor, expected):
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-10, atol=1e-12)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def affine(cell, x, h):
    """The weighted input and state of a cell, with its biases if it has any."""
    names = [name for name in ("bias_ih", "bias_hh") if getattr(cell, name, None) is not None]
    return x @ cell.W_ih.numpy() + h @ cell.W_hh.numpy() + sum(getattr(cell, name).numpy() for name in names)


def lstm_step(cell, x, h, c):
    """Hochreiter and Schmidhuber's cell with a forget gate: the new state and the new memory."""
    i, f, g, o = np.split(affine(cell, x, h), 4, axis=1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


# --------------------------------------------------------------------------------------------------------------- cells


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_an_rnn_cell_is_the_nonlinearity_of_weighted_input_and_state(nonlinearity, bias):
    cell = nn.RNNCell(INPUT, HIDDEN, bias=bias, nonlinearity=nonlinearity, dtype="float64")
    x, h = random(BATCH, INPUT), random(BATCH, HIDDEN)
    f = {"tanh": np.tanh, "relu": lambda a: np.maximum(a, 0)}[nonlinearity]
    close(cell(x, h), f(affine(cell, x.numpy(), h.numpy())))
    close(cell(x), f(affine(cell, x.numpy(), np.zeros((BATCH, HIDDEN)))))


@pytest.mark.parametrize("bias", [True, False])
def test_an_lstm_cell_has_its_gates_in_the_order_i_f_g_o(bias):
    cell = nn.LSTMCell(INPUT, HIDDEN, bias=bias, dtype="float64")
    x, h, c = random(BATCH, INPUT), random(BATCH, HIDDEN), random(BATCH, HIDDEN)
    zeros = np.zeros((BATCH, HIDDEN))
    for state, start in (((h, c), (h.numpy(), c.numpy())), (None, (zeros, zeros))):
        for mine, expected in zip(cell(x, state), lstm_step(cell, x.numpy(), *start)):
            close(mine, expected)


@pytest.mark.parametrize(("make", "gates"), [(nn.RNNCell, 1), (nn.LSTMCell, 4)])
def test_a_cells_parameters_are_uniform_up_to_one_over_the_root_of_its_size(make, gates):
    cell = make(200, 100)
    assert cell.W_ih.shape == (200, gates * 100) and cell.W_hh.shape == (100, gates * 100)
    assert cell.bias_ih.shape == cell.bias_hh.shape == (gates * 100,)
    for p in cell.parameters():
        # Of 100 draws and more, none reaches nine tenths of the bound once in 0.9⁻¹⁰⁰ = 38,000 times.
        assert 0.09 < np.abs(p.numpy()).max() <= 0.1 * (1 + 1e-6)
    assert len(make(3, 2, bias=False).parameters()) == 2


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_the_gradients_of_an_rnn_cell_are_the_measured_slopes(nonlinearity):
    cell = nn.RNNCell(3, 2, nonlinearity=nonlinearity, dtype="float64")
    assert_gradients_are_right(lambda x, h, *_: cell(x, h), random(2, 3), random(2, 2), *cell.parameters())


def test_the_gradients_of_an_lstm_cell_are_the_measured_slopes():
    cell = nn.LSTMCell(3, 2, dtype="float64")
    assert_gradients_are_right(
        lambda x, h, c, *_: ndl.stack(cell(x, (h, c))), random(2, 3), random(2, 2), random(2, 2), *cell.parameters()
    )


# ---------------------------------------------------------------------------------------------------------------- nets


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("layers", [1, 3])
def test_an_rnn_runs_each_layer_over_what_the_one_below_gave(layers, given):
    net, X = nn.RNN(INPUT, HIDDEN, num_layers=layers, dtype="float64"), random(SEQ, BATCH, INPUT)
    h0 = random(layers, BATCH, HIDDEN) if given else ndl.init.zeros(layers, BATCH, HIDDEN, dtype="float64")
    output, h_n = net(X, h0 if given else None)
    below = X.numpy()
    for k, cell in enumerate(net.rnn_cells):
        h, states = h0.numpy()[k], []
        for x in below:
            h = np.tanh(affine(cell, x, h))
            states.append(h)
        below = np.array(states)
        close(h_n[k], h)
    close(output, below)
    assert h_n.shape == (layers, BATCH, HIDDEN)


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("layers", [1, 3])
def test_an_lstm_runs_each_layer_over_what_the_one_below_gave(layers, given):
    net, X = nn.LSTM(INPUT, HIDDEN, num_layers=layers, dtype="float64"), random(SEQ, BATCH, INPUT)
    make = random if given else lambda *shape: ndl.init.zeros(*shape, dtype="float64")
    h0, c0 = (make(layers, BATCH, HIDDEN) for _ in range(2))
    output, (h_n, c_n) = net(X, (h0, c0) if given else None)
    below = X.numpy()
    for k, cell in enumerate(net.lstm_cells):
        h, c, states = h0.numpy()[k], c0.numpy()[k], []
        for x in below:
            h, c = lstm_step(cell, x, h, c)
            states.append(h)
        below = np.array(states)
        close(h_n[k], h)
        close(c_n[k], c)
    close(output, below)


def test_gradients_flow_back_through_all_steps_of_an_rnn():
    net = nn.RNN(2, 2, num_layers=2, dtype="float64")
    assert_gradients_are_right(lambda x, h, *_: net(x, h)[0], random(3, 2, 2), random(2, 2, 2), *net.parameters())


def test_gradients_flow_back_through_all_steps_of_an_lstm():
    net = nn.LSTM(2, 2, dtype="float64")

    def output_and_memory(x, h, c, *_):
        output, (_, c_n) = net(x, (h, c))
        return output * c_n.broadcast_to(output.shape)

    assert_gradients_are_right(output_and_memory, random(3, 2, 2), random(1, 2, 2), random(1, 2, 2), *net.parameters())


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_an_embedding_gives_the_row_of_each_id(dtype):
    layer, ids = nn.Embedding(7, 3), np.array([[0, 6, 2], [2, 2, 5]])
    vectors = layer(ndl.Tensor(ids.astype(dtype), requires_grad=False))
    np.testing.assert_array_equal(vectors.numpy(), layer.weight.numpy()[ids])


def test_the_rows_of_an_embedding_are_standard_normal():
    w = nn.Embedding(200, 100).weight.numpy()
    assert w.shape == (200, 100)
    assert abs(w.mean()) < 5 / np.sqrt(w.size) and abs(w.std() - 1) < 5 / np.sqrt(2 * w.size)


def test_a_row_gets_the_gradient_of_every_place_that_named_it():
    layer, ids = nn.Embedding(4, 2, dtype="float64"), ndl.Tensor([[3, 1], [1, 1]], requires_grad=False)
    assert_gradients_are_right(lambda w: layer(ids), layer.weight)


# ---------------------------------------------------------------------------------------------------------------- data


def test_a_dictionary_numbers_words_in_the_order_of_their_first_appearance():
    words = Dictionary()
    assert [words.add_word(word) for word in ["the", "cat", "and", "the", "dog"]] == [0, 1, 2, 0, 3]
    assert len(words) == 4 and words.idx2word == ["the", "cat", "and", "dog"] and words.word2idx["and"] == 2


@pytest.mark.parametrize(("lines", "train"), [(None, "a b <eos> b c <eos> a <eos>"), (2, "a b <eos> b c <eos>")])
def test_a_corpus_ends_each_line_with_eos_and_reads_as_many_as_it_is_told_to(tmp_path, lines, train):
    (tmp_path / "train.txt").write_text("a b\nb c\na\n")
    (tmp_path / "test.txt").write_text("c a\n")
    corpus = Corpus(str(tmp_path), max_lines=lines)
    words = corpus.dictionary.idx2word
    assert [words[k] for k in corpus.train] == train.split()
    assert [words[k] for k in corpus.test] == ["c", "a", "<eos>"]


def test_batchify_lays_the_text_out_in_columns_and_drops_the_rest():
    batches = batchify(list(range(11)), batch_size=3, device=None, dtype="float32")
    np.testing.assert_array_equal(batches, [[0, 3, 6], [1, 4, 7], [2, 5, 8]])


@pytest.mark.parametrize(("i", "rows"), [(0, 2), (1, 2), (2, 1)])
def test_a_batch_has_the_words_that_follow_as_targets_and_may_be_short_at_the_end(i, rows):
    batches = batchify(list(range(12)), batch_size=3)  # four rows
    data, target = get_batch(batches, i, bptt=2, dtype="float32")
    np.testing.assert_array_equal(data.numpy(), batches[i : i + rows])
    np.testing.assert_array_equal(target.numpy(), batches[i + 1 : i + 1 + rows].reshape(-1))
    assert data.dtype == "float32"


# ------------------------------------------------------------------------------------------------------ language model


@pytest.mark.parametrize(("kind", "gates"), [("rnn", 1), ("lstm", 4)])
def test_a_language_model_is_an_embedding_a_net_and_a_linear_layer(kind, gates):
    model = LanguageModel(6, 11, 8, num_layers=2, seq_model=kind)
    first, second = gates * (6 * 8 + 8 * 8 + 2 * 8), gates * (8 * 8 + 8 * 8 + 2 * 8)
    assert sum(int(np.prod(p.shape)) for p in model.parameters()) == 11 * 6 + first + second + 8 * 11 + 11
    logits, state = model(ndl.Tensor(np.random.randint(11, size=(5, 3)), requires_grad=False))
    assert logits.shape == (15, 11)
    assert [s.shape for s in (state if kind == "lstm" else (state,))] == [(2, 3, 8)] * (2 if kind == "lstm" else 1)
    logits.sum().backward(create_graph=False)
    assert all(p.grad.shape == p.shape for p in model.parameters())


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
def test_the_state_carries_what_was_read_over_to_the_next_call(kind):
    model = LanguageModel(6, 11, 8, num_layers=2, seq_model=kind, dtype="float64")
    words = np.random.randint(11, size=(6, 3))
    read = lambda rows, state=None: model(ndl.Tensor(rows, requires_grad=False), state)  # noqa: E731
    first, state = read(words[:4])
    second, _ = read(words[4:], state)
    close(read(words)[0], np.concatenate([first.numpy(), second.numpy()]))


def test_evaluation_gives_accuracy_and_mean_loss_and_changes_nothing():
    model, data = LanguageModel(4, 7, 5, dtype="float64"), batchify(np.random.randint(7, size=60), batch_size=3)
    before = [p.numpy().copy() for p in model.parameters()]
    accuracy, loss = evaluate_ptb(model, data, seq_len=8)
    Z, y = model(ndl.Tensor(data[:-1], requires_grad=False))[0].numpy(), data[1:].reshape(-1)
    losses = np.log(np.exp(Z).sum(axis=1)) - Z[np.arange(len(y)), y]
    np.testing.assert_allclose([accuracy, loss], [(Z.argmax(axis=1) == y).mean(), losses.mean()], rtol=1e-6)
    assert epoch_general_ptb(data, model, seq_len=8) == (accuracy, loss)
    for p, old in zip(model.parameters(), before):
        np.testing.assert_array_equal(p.numpy(), old)


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
def test_training_learns_a_text_that_repeats(kind):
    data = batchify(list(range(5)) * 24, batch_size=4, dtype="float32")
    model = LanguageModel(8, 5, 16, seq_model=kind)
    train_ptb(model, data, seq_len=6, n_epochs=12, optimizer=ndl.optim.Adam, lr=0.01, clip=1.0)
    accuracy, loss = evaluate_ptb(model, data, seq_len=6)
    assert accuracy > 0.9 and loss < 0.5  # chance is ln 5 = 1.6
