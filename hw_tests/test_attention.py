"""Attention: the op, and the modules made of it."""

import importlib
import math

import numpy as np
import pytest

import needle as ndl
from needle.gradcheck import gradcheck, gradgradcheck

BATCH, HEADS, QUERIES, KEYS, SIZE, WIDTH = 3, 2, 4, 5, 3, 6


def triple(queries=QUERIES, keys=KEYS):
    return [
        np.random.randn(BATCH, HEADS, queries, SIZE),
        np.random.randn(BATCH, HEADS, keys, SIZE),
        np.random.randn(BATCH, HEADS, keys, WIDTH),
    ]


def direct_attention(q, k, v, causal):
    """The definition, one query at a time."""
    result, weights = np.zeros((*q.shape[:3], v.shape[3])), np.zeros((*q.shape[:3], k.shape[2]))
    for b, h, t in np.ndindex(q.shape[:3]):
        seen = t + 1 + k.shape[2] - q.shape[2] if causal else k.shape[2]
        e = np.exp(k[b, h, :seen] @ q[b, h, t] / math.sqrt(q.shape[3]))
        weights[b, h, t, :seen] = e / e.sum()
        result[b, h, t] = weights[b, h, t] @ v[b, h]
    return result, weights


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("block", [1, 1 << 30])
def test_attention_is_its_definition(causal, block, monkeypatch):
    monkeypatch.setattr(importlib.import_module("needle.ops.attention"), "BLOCK_BYTES", block)
    inputs = triple()
    for mine, expected in zip(ndl.attention(*inputs, causal=causal), direct_attention(*inputs, causal)):
        np.testing.assert_allclose(mine, expected, atol=1e-14)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_and_second_derivatives_of_result_and_weights(causal):
    inputs = triple()
    assert gradcheck(lambda q, k, v: ndl.attention(q, k, v, causal), inputs)
    assert gradgradcheck(lambda q, k, v: ndl.attention(q, k, v, causal), inputs)


@pytest.mark.parametrize("causal", [False, True])
def test_packed_queries_keys_and_values_give_the_same(causal):
    qkv = np.random.randn(BATCH, KEYS, 3, HEADS, SIZE)
    parts = [qkv[:, :, k].transpose(0, 2, 1, 3) for k in range(3)]
    for packed, expected in zip(ndl.self_attention(qkv, causal), ndl.attention(*parts, causal)):
        np.testing.assert_array_equal(packed, expected)
    assert gradcheck(lambda x: ndl.self_attention(x, causal), qkv)
    assert gradgradcheck(lambda x: ndl.self_attention(x, causal), qkv)
    with pytest.raises(ValueError, match=r"self_attention: shape \(batch, length, 3, heads, size\)"):
        ndl.self_attention(qkv[:, :, :2])


@pytest.mark.parametrize("needed", [(0,), (1,), (2,), (0, 2)])
def test_gradients_of_some_inputs_alone(needed):
    inputs = triple()
    expected = [ndl.Tensor(a) for a in inputs]
    ndl.attention(*expected)[0].sum().backward()
    some = [ndl.Tensor(a, requires_grad=i in needed) for i, a in enumerate(inputs)]
    ndl.attention(*some)[0].sum().backward(create_graph=False)
    for i in range(3):
        if i in needed:
            np.testing.assert_allclose(some[i].grad.numpy(), expected[i].grad.numpy(), atol=1e-14)
        else:
            assert some[i].grad is None


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logits_of_ten_thousand_stay_finite(dtype, causal):
    q = k = np.full((1, 1, 4, 1), 100.0, dtype=dtype)
    signs = np.array([1, -1, 1, -1], dtype=dtype).reshape(1, 1, 4, 1)
    q, k, v = (ndl.Tensor(a) for a in (q, k * signs, np.random.randn(1, 1, 4, 2).astype(dtype)))
    result, weights = ndl.attention(q, k, v, causal)
    (result.sum() + (weights * weights).sum()).backward()
    for array in (result, weights, q.grad, k.grad, v.grad):
        assert np.isfinite(array.numpy()).all()
    np.testing.assert_allclose(weights.numpy().sum(axis=-1), 1, rtol=1e-6)


def test_softmax_and_its_logarithm_stay_finite_at_logits_of_ten_thousand():
    x = ndl.Tensor([[1e4, -1e4, 0.0], [1e4, 1e4, -1e4]])
    y, log_y = ndl.softmax(x), ndl.logsoftmax(x)
    np.testing.assert_allclose(y.numpy(), [[1, 0, 0], [0.5, 0.5, 0]], atol=1e-12)
    np.testing.assert_allclose(log_y.numpy()[0], [0, -2e4, -1e4])
    (y * y + log_y).sum().backward()
    assert np.isfinite(x.grad.numpy()).all()


def test_the_result_lies_in_memory_with_the_heads_of_a_position_side_by_side():
    result, _ = ndl.attention(*triple())
    assert np.shares_memory(result.transpose(0, 2, 1, 3).reshape(-1, HEADS * WIDTH), result)


@pytest.mark.parametrize(
    ("shapes", "causal", "text"),
    [
        (((2, 3, 4), (2, 3, 4), (2, 3, 4)), False, r"shapes \(batch, heads, length, size\) are needed"),
        (((1, 2, 3, 4), (1, 3, 3, 4), (1, 3, 3, 4)), False, "batch and heads must be equal"),
        (((1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 3, 4)), False, "queries and keys have one size, at least 1; got 4 and 5"),
        (((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 2, 4)), False, "as many keys as values, at least 1; got 3 and 2"),
        (((1, 2, 3, 4), (1, 2, 0, 4), (1, 2, 0, 4)), False, "as many keys as values, at least 1; got 0 and 0"),
        (((1, 2, 3, 4), (1, 2, 2, 4), (1, 2, 2, 4)), True, "with causal=True the first of 3 queries would see no key"),
    ],
)
def test_shapes_that_do_not_fit_are_an_error_that_says_so(shapes, causal, text):
    with pytest.raises(ValueError, match=text):
        ndl.attention(*[np.zeros(shape) for shape in shapes], causal=causal)
