"""Attention layers and transformers, held to PyTorch, and what they refuse."""

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.gradcheck import gradcheck, gradgradcheck

BATCH, LENGTH, FEATURES, HEADS, SIZE, WIDE = 3, 5, 8, 2, 4, 16
KINDS = [
    *[{"dtype": dtype, "causal": causal} for dtype in ("float32", "float64") for causal in (False, True)],
]


def sequences(*shape, dtype="float64"):
    return np.random.randn(*(shape or (BATCH, LENGTH, FEATURES))).astype(dtype)


def randomise(module):
    """Give scales and shifts other values than ones and zeros, so that no term of a gradient is hidden."""
    for name, p in module.named_parameters():
        if "norm" in name:
            p.data = ndl.Tensor((np.random.rand(*p.shape) + 0.5).astype(p.dtype))


def torch_attention(torch, weights, q, k, v, heads, causal):
    """The layer written with torch's functions, from needle's weights by name."""

    def project(what, x):
        norm = torch.nn.functional.layer_norm(
            x, x.shape[-1:], weights[f"prenorm_{what}.weight"], weights[f"prenorm_{what}.bias"]
        )
        y = norm @ weights[f"{what}_projection.weight"]
        return y.reshape(*y.shape[:2], heads, -1).transpose(1, 2)

    result = torch.nn.functional.scaled_dot_product_attention(
        project("q", q), project("k", k), project("v", v), is_causal=causal
    )
    result = result.transpose(1, 2).reshape(*q.shape[:2], -1)
    return result @ weights["out_projection.weight"]


def torch_layer(torch, weights, x, heads, causal):
    def part(prefix):
        return {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}

    x = x + torch_attention(torch, part("attention."), x, x, x, heads, causal)
    y = torch.nn.functional.layer_norm(x, x.shape[-1:], weights["layer_norm.weight"], weights["layer_norm.bias"])
    y = torch.relu(y @ weights["linear1.weight"] + weights["linear1.bias"])
    return x + y @ weights["linear2.weight"] + weights["linear2.bias"]


def in_torch(torch, module):
    """needle's parameters as torch leaves, by name, and the pairs to compare."""
    leaves = {name: torch.tensor(p.numpy()).requires_grad_() for name, p in module.named_parameters()}
    return leaves, [(p, leaves[name], np.asarray) for name, p in module.named_parameters()]


@pytest.mark.parametrize("kind", KINDS)
def test_attention_is_that_of_torch(torch, kind):
    from torch_reference import assert_agree

    activation = nn.MultiHeadAttention(causal=kind["causal"])
    inputs = [sequences(2, HEADS, LENGTH, SIZE, dtype=kind["dtype"]) for _ in range(3)]
    reference = torch.nn.functional.scaled_dot_product_attention
    assert_agree(lambda *x: activation(*x)[0], lambda *x: reference(*x, is_causal=kind["causal"]), inputs)


@pytest.mark.parametrize("kind", KINDS)
def test_an_attention_layer_is_that_of_torch(torch, kind):
    from torch_reference import assert_agree

    layer = nn.AttentionLayer(FEATURES, HEADS, SIZE, **kind)
    randomise(layer)
    weights, pairs = in_torch(torch, layer)
    assert_agree(
        layer,
        lambda x: torch_attention(torch, weights, x, x, x, HEADS, kind["causal"]),
        [sequences(dtype=kind["dtype"])],
        pairs,
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_attention_to_other_keys_and_values_is_that_of_torch(torch, dtype):
    from torch_reference import assert_agree

    layer = nn.AttentionLayer(
        FEATURES, HEADS, SIZE, k_features=6, v_features=7, out_features=9, causal=False, dtype=dtype
    )
    randomise(layer)
    weights, pairs = in_torch(torch, layer)
    inputs = [sequences(dtype=dtype), sequences(BATCH, 4, 6, dtype=dtype), sequences(BATCH, 4, 7, dtype=dtype)]
    assert_agree(layer, lambda q, k, v: torch_attention(torch, weights, q, k, v, HEADS, False), inputs, pairs)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_to_oneself_is_attention_to_a_copy(causal):
    layer = nn.AttentionLayer(FEATURES, HEADS, SIZE, causal=causal, dtype="float64")
    randomise(layer)
    grads = []
    for copied in (False, True):
        x = ndl.Tensor(np.random.RandomState(1).randn(BATCH, LENGTH, FEATURES))
        y = layer(x, x * 1, x * 1) if copied else layer(x)
        (y * y * y).sum().backward()
        grads.append([t.grad.numpy() for t in (x, *layer.parameters())])
    for packed, general in zip(*grads):
        np.testing.assert_allclose(packed, general, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_a_transformer_layer_is_that_of_torch(torch, kind):
    from torch_reference import assert_agree

    layer = nn.TransformerLayer(FEATURES, HEADS, SIZE, WIDE, **kind)
    randomise(layer)
    weights, pairs = in_torch(torch, layer)
    assert_agree(
        layer,
        lambda x: torch_layer(torch, weights, x, HEADS, kind["causal"]),
        [sequences(dtype=kind["dtype"])],
        pairs,
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_a_transformer_is_that_of_torch(torch, batch_first, dtype):
    from torch_reference import assert_agree

    settings = {"num_head": HEADS, "dim_head": SIZE, "batch_first": batch_first, "sequence_len": LENGTH + 2}
    model = nn.Transformer(FEATURES, WIDE, 2, dtype=dtype, **settings)
    randomise(model)
    weights, pairs = in_torch(torch, model)

    def theirs(x):
        x = x if batch_first else x.transpose(0, 1)
        x = x + weights["positions.weight"][: x.shape[1]]
        for k in range(2):
            part = {name.removeprefix(f"layers.{k}."): w for name, w in weights.items() if f"layers.{k}." in name}
            x = torch_layer(torch, part, x, HEADS, causal=True)
        return x if batch_first else x.transpose(0, 1)

    assert_agree(lambda x: model(x)[0], theirs, [sequences(dtype=dtype)], pairs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(FEATURES,), (LENGTH, FEATURES)])
def test_layer_normalisation_is_that_of_torch(torch, shape, dtype):
    from torch_reference import assert_agree

    mine, other = nn.LayerNorm(shape, dtype=dtype), torch.nn.LayerNorm(shape, dtype=getattr(torch, dtype))
    for p in mine.parameters():
        p.data = ndl.Tensor(np.random.rand(*p.shape).astype(dtype))
    weights = [(mine.weight, other.weight, np.asarray), (mine.bias, other.bias, np.asarray)]
    assert_agree(mine, other, [sequences(dtype=dtype)], weights)


def test_a_layer_has_gradients_of_first_and_second_order():
    layer = nn.TransformerLayer(4, 2, 2, 6, dtype="float64")
    randomise(layer)
    parameters = layer.parameters()
    values = [p.numpy().copy() for p in parameters]

    def run(x, *weights):
        for module in [m for _, m in layer.named_modules()]:
            for name, value in vars(module).items():
                for p, w in zip(parameters, weights):
                    if value is p:
                        vars(module)[name] = w
        try:
            return layer(x)
        finally:
            for module in [m for _, m in layer.named_modules()]:
                for name, value in vars(module).items():
                    for p, w in zip(parameters, weights):
                        if value is w:
                            vars(module)[name] = p

    assert gradcheck(run, [np.random.randn(2, 3, 4), *values])
    assert gradgradcheck(run, [np.random.randn(2, 3, 4), *values])


@pytest.mark.parametrize("place", range(LENGTH))
def test_a_causal_models_output_does_not_change_when_later_tokens_do(place):
    model = nn.Transformer(FEATURES, WIDE, 2, num_head=HEADS, dim_head=SIZE, sequence_len=LENGTH, batch_first=True)
    x = sequences(dtype="float32")
    before = model(ndl.Tensor(x))[0].numpy()
    x[:, place + 1 :] = np.random.randn(*x[:, place + 1 :].shape) * 100
    np.testing.assert_array_equal(model(ndl.Tensor(x))[0].numpy()[:, : place + 1], before[:, : place + 1])


def test_a_model_that_is_not_causal_sees_later_tokens():
    layer = nn.TransformerLayer(FEATURES, HEADS, SIZE, WIDE, causal=False)
    x = sequences(dtype="float32")
    before = layer(ndl.Tensor(x)).numpy()
    x[:, -1, 0] += 1
    assert (layer(ndl.Tensor(x)).numpy()[:, 0] != before[:, 0]).all()


@pytest.mark.cpu_only("expects NumPy's random numbers")
def test_dropout_of_attention_weights_acts_in_training_alone_and_draws_one_mask():
    q, k, v = (ndl.Tensor(sequences(1, 1, LENGTH, SIZE)) for _ in range(3))
    activation = nn.MultiHeadAttention(dropout=0.5, causal=True)
    np.random.seed(7)
    result, probs = activation(q, k, v)
    np.random.seed(7)
    kept = np.random.rand(1, 1, LENGTH, LENGTH) <= 0.5
    plain, weights = activation.eval()(q, k, v)
    np.testing.assert_allclose(probs.numpy(), weights.numpy() * kept * 2, atol=1e-14)
    np.testing.assert_allclose(result.numpy(), probs.numpy() @ v.numpy(), atol=1e-14)
    np.testing.assert_allclose(plain.numpy(), weights.numpy() @ v.numpy(), atol=1e-14)


def test_projections_are_drawn_in_the_order_of_the_course():
    np.random.seed(2)
    layer = nn.TransformerLayer(FEATURES, HEADS, SIZE, WIDE)
    np.random.seed(2)
    attention = layer.attention
    for linear, bias in (
        (attention.q_projection, False),
        (attention.k_projection, False),
        (attention.v_projection, False),
        (attention.out_projection, False),
        (layer.linear1, True),
        (layer.linear2, True),
    ):
        expected = nn.Linear(*linear.weight.shape, bias=bias)
        np.testing.assert_array_equal(linear.weight.numpy(), expected.weight.numpy())


def test_a_sequence_longer_than_the_learned_positions_is_an_error_that_says_so():
    model = nn.Transformer(FEATURES, WIDE, 1, sequence_len=4)
    with pytest.raises(ValueError, match="a sequence of 5 positions, but only sequence_len=4 have a learned vector"):
        model(ndl.init.rand(5, 2, FEATURES))


def test_wrong_inputs_are_errors_that_say_so():
    with pytest.raises(ValueError, match=r"Transformer: an input of shape \(seq, batch, 8\) is needed, got \(2, 8\)"):
        nn.Transformer(FEATURES, WIDE, 1)(ndl.init.rand(2, 8))
    with pytest.raises(ValueError, match=r"AttentionLayer: k of shape \(batch, length, 8\) .*got \(1, 2, 7\)"):
        nn.AttentionLayer(FEATURES, HEADS, SIZE)(ndl.init.rand(1, 2, 8), ndl.init.rand(1, 2, 7))
    with pytest.raises(ValueError, match=r"LayerNorm: an input whose shape ends in \(3, 4\) is needed, got \(4,\)"):
        nn.LayerNorm((3, 4))(ndl.init.rand(4))
    with pytest.raises(ValueError, match="GELU: approximate is 'none' or 'tanh', got 'sigmoid'"):
        nn.GELU("sigmoid")
