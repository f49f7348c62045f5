"""Homework 5, attention: softmax, the activation of several heads, and the layer with its projections."""

import numpy as np
import pytest
from homework_gradients import assert_gradients_are_right, random

import needle as ndl
from needle import nn

BATCH, HEADS, LENGTH, SIZE = 2, 3, 4, 5


def close(tensor, expected):
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-10, atol=1e-12)


def softmax(Z):
    e = np.exp(Z - Z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attend(q, k, v, causal):
    """Vaswani et al. 2017, formula 1, for each query by itself: softmax(q kᵀ / √d) v over the keys that it may see."""
    result, probs = np.zeros((*q.shape[:3], v.shape[3])), np.zeros((*q.shape[:3], k.shape[2]))
    for b, h, t in np.ndindex(*q.shape[:3]):
        seen = t + 1 if causal else k.shape[2]
        probs[b, h, t, :seen] = softmax(k[b, h, :seen] @ q[b, h, t] / np.sqrt(q.shape[3]))
        result[b, h, t] = probs[b, h, t] @ v[b, h]
    return result, probs


def heads(length=LENGTH):
    return random(BATCH, HEADS, length, SIZE)


# ------------------------------------------------------------------------------------------------------------- softmax


def test_log_softmax_is_the_log_of_the_share_of_the_exponential():
    x = random(3, 6)
    close(ndl.logsoftmax(x), np.log(softmax(x.numpy())))


def test_log_softmax_stays_finite_for_huge_logits():
    close(ndl.logsoftmax(ndl.Tensor([[1e4, -1e4, 1e4]])), [[-np.log(2), -2e4 - np.log(2), -np.log(2)]])


def test_the_gradient_of_log_softmax_is_the_measured_slope():
    assert_gradients_are_right(ndl.logsoftmax, random(3, 4))


# ---------------------------------------------------------------------------------------------------------- activation


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_its_formula(causal):
    q, k, v = heads(), heads(), heads()
    for mine, expected in zip(
        nn.MultiHeadAttention(causal=causal)(q, k, v), attend(q.numpy(), k.numpy(), v.numpy(), causal)
    ):
        close(mine, expected)


def test_queries_attend_to_another_number_of_keys():
    q, k, v = heads(2), heads(6), heads(6)
    result, probs = nn.MultiHeadAttention()(q, k, v)
    assert result.shape == (BATCH, HEADS, 2, SIZE) and probs.shape == (BATCH, HEADS, 2, 6)
    close(result, attend(q.numpy(), k.numpy(), v.numpy(), causal=False)[0])


def test_a_causal_query_gives_later_keys_exactly_nothing():
    _, probs = nn.MultiHeadAttention(causal=True)(heads(), heads(), heads())
    future = np.triu(np.ones((LENGTH, LENGTH), dtype=bool), 1)
    assert (probs.numpy()[..., future] == 0).all()
    close(probs.sum(axes=3), np.ones((BATCH, HEADS, LENGTH)))


def test_attention_stays_finite_for_huge_logits():
    q = ndl.Tensor(np.full((1, 1, 2, 1), 1e3))
    k = ndl.Tensor(np.array([1e3, -1e3]).reshape(1, 1, 2, 1))
    result, probs = nn.MultiHeadAttention()(q, k, ndl.Tensor(np.array([7.0, 8.0]).reshape(1, 1, 2, 1)))
    close(probs, [[[[1, 0], [1, 0]]]])
    close(result, [[[[7], [7]]]])


def test_dropout_leaves_out_weights_in_training_alone():
    q, k, v = heads(), heads(), heads()
    attention = nn.MultiHeadAttention(dropout=0.25)
    weights = attend(q.numpy(), k.numpy(), v.numpy(), causal=False)[1]
    result, probs = attention(q, k, v)
    kept = probs.numpy() != 0
    assert kept.any() and not kept.all()
    close(probs, weights * kept / 0.75)
    close(result, probs.numpy() @ v.numpy())
    attention.eval()
    close(attention(q, k, v)[1], weights)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("item", [0, 1], ids=["result", "probs"])
def test_the_gradients_of_attention_are_the_measured_slopes(item, causal):
    attention = nn.MultiHeadAttention(causal=causal)
    inputs = [random(1, 2, 3, 2) for _ in range(3 if item == 0 else 2)]
    v = random(1, 2, 3, 2)
    assert_gradients_are_right(lambda *qkv: attention(*qkv, *[v][: 3 - len(qkv)])[item], *inputs)


# --------------------------------------------------------------------------------------------------------------- layer


def normal(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_an_attention_layer_normalises_projects_attends_and_projects_back(causal):
    layer = nn.AttentionLayer(
        6, 3, 4, k_features=7, v_features=8, out_features=9, causal=causal, dtype="float64"
    )  # the sizes tell the weights apart
    weights = {p.shape: p.numpy() for p in layer.parameters()}
    inputs = [random(BATCH, LENGTH, features) for features in (6, 7, 8)]
    projected = [
        (normal(x.numpy()) @ weights[x.shape[2], 12]).reshape(BATCH, LENGTH, 3, 4).transpose(0, 2, 1, 3) for x in inputs
    ]
    result, _ = attend(*projected, causal)
    close(layer(*inputs), result.transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, 12) @ weights[12, 9])


def test_an_attention_layer_has_four_projections_without_bias_and_three_norms():
    layer = nn.AttentionLayer(6, 3, 4)
    shapes = sorted(p.shape for p in layer.parameters())
    assert shapes == sorted([(6, 12)] * 3 + [(12, 6)] + [(6,)] * 6)


def test_a_layer_attends_to_its_queries_where_no_keys_and_values_are_given():
    layer, x = nn.AttentionLayer(6, 3, 4, dtype="float64"), random(BATCH, LENGTH, 6)
    close(layer(x), layer(x, x * 1, x * 1).numpy())


def test_a_layer_is_causal_unless_told_otherwise():
    x = np.random.randn(1, LENGTH, 6)
    changed = x.copy()
    changed[:, -1] += np.random.randn(6)
    for causal, same in (({}, True), ({"causal": False}, False)):
        layer = nn.AttentionLayer(6, 3, 4, dtype="float64", **causal)
        before, after = (layer(ndl.Tensor(a)).numpy()[:, :-1] for a in (x, changed))
        assert np.allclose(before, after, rtol=1e-12, atol=1e-14) == same


def test_the_gradients_of_a_layer_are_the_measured_slopes():
    layer = nn.AttentionLayer(3, 2, 2, k_features=4, v_features=2, causal=False, dtype="float64")
    inputs = random(1, 2, 3), random(1, 3, 4), random(1, 3, 2)
    assert_gradients_are_right(lambda q, k, v, *_: layer(q, k, v), *inputs, *layer.parameters())
