"""Homework 5, transformers: layer normalisation, GELU, the layer, the stack with positions, and a language model."""

import math

import numpy as np
import pytest
from homework_gradients import assert_gradients_are_right, random
from test_hw5_attention import attend, close, normal

import needle as ndl
from apps.models import LanguageModel
from apps.simple_ml import evaluate_ptb, train_ptb
from needle import nn
from needle.data import batchify

FEATURES, HEADS, SIZE, HIDDEN = 6, 2, 4, 10


# ------------------------------------------------------------------------------------------------------------- modules


@pytest.mark.parametrize("shape", [(5,), (4, 5)])
def test_layer_norm_normalises_its_last_axes_together_then_scales_and_shifts(shape):
    norm, x = nn.LayerNorm(shape, dtype="float64"), random(3, 4, 5)
    scale, shift = random(*shape), random(*shape)
    a = x.numpy()
    axes = tuple(range(-len(shape), 0))
    expected = (a - a.mean(axes, keepdims=True)) / np.sqrt(a.var(axes, keepdims=True) + 1e-5)
    close(norm(x), expected)
    norm.weight.data, norm.bias.data = scale.data, shift.data
    close(norm(x), expected * scale.numpy() + shift.numpy())


def test_the_gradients_of_layer_norm_are_the_measured_slopes():
    norm = nn.LayerNorm((2, 3), dtype="float64")
    assert_gradients_are_right(lambda x, *_: norm(x), random(4, 2, 3), *norm.parameters())


def test_gelu_weights_a_number_by_the_share_of_the_normal_distribution_below_it():
    x = np.linspace(-5, 5, 41)
    close(nn.GELU()(ndl.Tensor(x)), [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x])


def test_gelu_is_approximated_by_tanh():
    """Hendrycks and Gimpel 2016, section 2."""
    x = np.linspace(-5, 5, 41)
    expected = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    close(nn.GELU("tanh")(ndl.Tensor(x)), expected)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_the_gradient_of_gelu_is_the_measured_slope(approximate):
    assert_gradients_are_right(nn.GELU(approximate), random(3, 4))


# --------------------------------------------------------------------------------------------------------------- layer


def set_all(module, shape, value):
    """Set every parameter of this shape, and give how many there are."""
    found = [p for p in module.parameters() if p.shape == shape]
    for p in found:
        p.data = ndl.Tensor(np.broadcast_to(value, shape).astype("float64"))
    return len(found)


def layer(**settings):
    return nn.TransformerLayer(FEATURES, HEADS, SIZE, HIDDEN, dtype="float64", **settings)


def without_attention(module):
    """Give the module after its attention's last projection was made zero."""
    assert set_all(module, (HEADS * SIZE, FEATURES), 0)
    return module


def without_feed_forward(module):
    """Give the module after the last linear layer that follows attention was made zero."""
    assert set_all(module, (HIDDEN, FEATURES), 0) and set_all(module, (1, FEATURES), 0)
    return module


def test_a_layer_whose_two_parts_give_zero_is_the_identity():
    x = random(3, 4, FEATURES)
    close(without_attention(without_feed_forward(layer()))(x), x.numpy())


def test_behind_attention_come_a_norm_two_linear_layers_with_relu_and_a_residual_connection():
    module, x = without_attention(layer()), random(3, 4, FEATURES)
    weights = {p.shape: p.numpy() for p in module.parameters()}
    hidden = np.maximum(normal(x.numpy()) @ weights[FEATURES, HIDDEN] + weights[1, HIDDEN], 0)
    close(module(x), x.numpy() + hidden @ weights[HIDDEN, FEATURES] + weights[1, FEATURES])


@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_the_normalised_input_is_added_to_it(causal):
    module, x = without_feed_forward(layer(causal=causal)), random(3, 4, FEATURES)
    projection = np.random.randn(FEATURES, HEADS * SIZE)
    assert set_all(module, projection.shape, projection) == 3  # of queries, keys and values
    q = (normal(x.numpy()) @ projection).reshape(3, 4, HEADS, SIZE).transpose(0, 2, 1, 3)
    heads = attend(q, q, q, causal)[0].transpose(0, 2, 1, 3).reshape(3, 4, HEADS * SIZE)
    (last,) = [p.numpy() for p in module.parameters() if p.shape == (HEADS * SIZE, FEATURES)]
    close(module(x), x.numpy() + heads @ last)


def test_the_gradients_of_a_layer_are_the_measured_slopes():
    module = nn.TransformerLayer(3, 1, 2, 4, dtype="float64")
    assert_gradients_are_right(lambda x, *_: module(x), random(2, 3, 3), *module.parameters())


# --------------------------------------------------------------------------------------------------------------- stack


def transformer(**settings):
    sizes = {"num_layers": 2, "num_head": HEADS, "dim_head": SIZE, "sequence_len": 7, "dtype": "float64"}
    return nn.Transformer(FEATURES, HIDDEN, **{**sizes, **settings})


def test_a_learned_vector_is_added_for_each_position():
    module, x = without_attention(without_feed_forward(transformer())), random(4, 3, FEATURES)
    (positions,) = [p.numpy() for p in module.parameters() if p.shape == (7, FEATURES)]
    output, _ = module(x)
    close(output, x.numpy() + positions[:4, None])


def test_batch_first_swaps_the_first_two_axes_of_input_and_output():
    model, swapped, x = transformer(), transformer(batch_first=True), random(4, 3, FEATURES)
    for mine, other in zip(model.parameters(), swapped.parameters()):
        other.data = mine.data
    close(swapped(x.transpose((0, 1)))[0], model(x)[0].numpy().swapaxes(0, 1))


def test_each_layer_has_parameters_of_its_own():
    one, three = (len(transformer(num_layers=n).parameters()) for n in (1, 3))
    # Three norms and four projections of attention, one more norm, two linear layers.
    assert three - one == 2 * (3 * 2 + 4 + 2 + 2 * 2)


@pytest.mark.parametrize("place", range(4))
def test_what_is_predicted_at_a_place_does_not_depend_on_what_comes_later(place):
    model, x = transformer(), np.random.randn(4, 3, FEATURES)
    before = model(ndl.Tensor(x))[0].numpy()
    x[place + 1 :] = np.random.randn(*x[place + 1 :].shape)
    close(model(ndl.Tensor(x))[0][: place + 1], before[: place + 1])


def test_gradients_reach_every_parameter_and_the_input():
    model, x = transformer(), random(4, 3, FEATURES)
    (model(x)[0] ** 2).sum().backward(create_graph=False)
    for value in (x, *model.parameters()):
        assert value.grad.shape == value.shape and np.abs(value.grad.numpy()).max() > 0


def test_a_language_model_learns_a_text_in_which_the_last_two_words_decide():
    text = [0, 1, 0, 2, 1, 2] * 20  # each word has two successors, equally often; each pair has one
    data = batchify(text, batch_size=4, dtype="float32")
    model = LanguageModel(8, 3, 16, seq_model="transformer", seq_len=5)
    train_ptb(model, data, seq_len=5, n_epochs=15, optimizer=ndl.optim.Adam, lr=0.01)
    # Who sees one word is right half of the time; who sees two, always but at the first of five places: 0.9.
    accuracy, _ = evaluate_ptb(model, data, seq_len=5)
    assert accuracy > 0.8
