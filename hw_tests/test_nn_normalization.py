"""Batch and layer normalisation: PyTorch's values and gradients, both orders of derivatives, statistics, errors."""

import numpy as np
import pytest

import needle as ndl
from needle import init, nn
from needle.gradcheck import gradcheck, gradgradcheck
from needle.ops import normalization_numpy

DTYPES = ["float32", "float64"]
SHAPES = [(7, 5), (2, 1), (100, 3), (64, 64), (4099, 17), (3, 1500)]
LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "channels last": lambda a: np.moveaxis(np.moveaxis(a, 1, -1).copy(), -1, 1) if a.ndim > 1 else a,
    "reversed": lambda a: np.flip(np.flip(a).copy()),
}


def normal(*shape, dtype="float64"):
    return (np.random.randn(*shape) * 2 + 3).astype(dtype)


def randomised(module):
    """The module with random weights, so that a gradient that forgot one would show."""
    for p in module.parameters():
        p.data = ndl.Tensor((np.random.rand(*p.shape) + 0.5).astype(p.dtype))
    return module


def by_name(mine, other):
    return [(mine.weight, other.weight, np.asarray), (mine.bias, other.bias, np.asarray)]


# -- values and gradients


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_batch_normalisation_is_that_of_torch(torch, shape, dtype):
    from torch_reference import assert_agree

    mine, other = nn.BatchNorm1d(shape[1], dtype=dtype), torch.nn.BatchNorm1d(shape[1], dtype=getattr(torch, dtype))
    weights = by_name(randomised(mine), other)
    assert_agree(mine, other, [normal(*shape, dtype=dtype)], weights)
    mine.eval(), other.eval()
    with torch.no_grad():
        other.running_mean.copy_(torch.tensor(mine.running_mean.numpy()))
        other.running_var.copy_(torch.tensor(mine.running_var.numpy()))
    assert_agree(mine, other, [normal(*shape, dtype=dtype)], weights)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*[shape for shape in SHAPES if shape[-1] > 1], (2, 3, 5), (4,), (1, 4)])
def test_layer_normalisation_is_that_of_torch(torch, shape, dtype):
    from torch_reference import assert_agree

    mine, other = nn.LayerNorm1d(shape[-1], dtype=dtype), torch.nn.LayerNorm(shape[-1], dtype=getattr(torch, dtype))
    assert_agree(mine, other, [normal(*shape, dtype=dtype)], by_name(randomised(mine), other))


@pytest.mark.cpu_only("NumPy's layouts in memory")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(6, 5), (4, 3, 2, 5)])
@pytest.mark.parametrize("name", ["batch_norm", "layer_norm"])
def test_the_layout_in_memory_does_not_matter(torch, name, shape, layout):
    from torch_reference import assert_agree

    size = shape[1] if name == "batch_norm" else shape[-1]
    weight, bias, x = normal(size), normal(size), LAYOUTS[layout](normal(*shape))

    def other(x, weight, bias):
        if name == "batch_norm":
            return torch.nn.functional.batch_norm(x, None, None, weight, bias, training=True)
        return torch.nn.functional.layer_norm(x, (size,), weight, bias)

    # A Tensor copies; the op is to see these strides.
    def mine(_, weight, bias):
        return getattr(ndl, name)(leaf, weight, bias)

    leaf = ndl.Tensor.make_const(x, requires_grad=True)
    cotangent = normal(*shape)
    y = mine(None, ndl.Tensor(weight), ndl.Tensor(bias))
    y.backward(ndl.Tensor.make_const(LAYOUTS[layout](cotangent)), create_graph=False)
    theirs = torch.tensor(np.ascontiguousarray(x), requires_grad=True)
    z = other(theirs, torch.tensor(weight), torch.tensor(bias))
    z.backward(torch.tensor(cotangent))
    np.testing.assert_allclose(y.numpy(), z.detach().numpy(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(leaf.grad.numpy(), theirs.grad.numpy(), rtol=1e-10, atol=1e-12)
    assert_agree(getattr(ndl, name), other, [np.ascontiguousarray(x), weight, bias])


@pytest.mark.parametrize("name", ["batch_norm", "layer_norm"])
@pytest.mark.parametrize("shape", [(5, 4), (3, 2, 2, 3)])
def test_the_gradients_hold_to_second_order(name, shape):
    size = shape[1] if name == "batch_norm" else shape[-1]
    inputs = [normal(*shape), normal(size), normal(size)]
    assert gradcheck(getattr(ndl, name), inputs, rtol=1e-6)
    assert gradgradcheck(getattr(ndl, name), inputs, rtol=1e-6)


@pytest.mark.parametrize("name", ["batch_norm", "layer_norm"])
@pytest.mark.parametrize("constant", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
def test_inputs_that_need_no_gradient_get_none_and_change_nothing(name, constant):
    values, cotangent = [normal(6, 4), normal(4), normal(4)], normal(6, 4)
    everything = [ndl.Tensor(v) for v in values]
    getattr(ndl, name)(*everything).backward(ndl.Tensor(cotangent))
    for create_graph in (True, False):
        some = [ndl.Tensor(v, requires_grad=i not in constant) for i, v in enumerate(values)]
        getattr(ndl, name)(*some).backward(ndl.Tensor(cotangent), create_graph=create_graph)
        for i, (x, full) in enumerate(zip(some, everything)):
            if i in constant:
                assert x.grad is None
            else:
                np.testing.assert_array_equal(x.grad.numpy(), full.grad.numpy())


@pytest.mark.parametrize("name", ["batch_norm", "layer_norm"])
@pytest.mark.parametrize("constant", [(0,), (1,), (2,), (0, 1), (1, 2)])
def test_second_order_holds_where_some_inputs_are_constants(name, constant):
    inputs = [
        ndl.Tensor(v, requires_grad=i not in constant) for i, v in enumerate([normal(5, 3), normal(3), normal(3)])
    ]
    assert gradgradcheck(getattr(ndl, name), inputs, rtol=1e-6)


@pytest.mark.parametrize("name", ["batch_norm", "layer_norm"])
def test_third_order_holds(name):
    weight, bias, u = (ndl.Tensor(v, requires_grad=False) for v in (normal(3), normal(3), normal(4, 3)))

    @ndl.enable_grad()
    def first(x):
        x = x if x.requires_grad else ndl.Tensor(x)
        return ndl.grad((getattr(ndl, name)(x, weight, bias) ** 2 * u).sum(), x)

    assert gradgradcheck(first, [normal(4, 3)], rtol=1e-5)


@pytest.mark.parametrize("name", ["batch_norm", "layer_norm"])
def test_the_forward_is_one_node_and_its_gradient_one_with_an_item_each(name):
    inputs = [ndl.Tensor(normal(6, 4)), ndl.Tensor(normal(4)), ndl.Tensor(normal(4))]
    y = getattr(ndl, name)(*inputs)
    assert len(ndl.autograd.find_topo_sort([y])) == 4
    y.backward(ndl.Tensor(normal(6, 4)))
    made = set(ndl.autograd.find_topo_sort([x.grad for x in inputs]))
    assert sorted(repr(node.op) for node in made if node.op is not None).count(f"{type(y.op).__name__}Grad") == 1
    assert sum(node.op is not None for node in made) == 4


@pytest.mark.parametrize("create_graph", [True, False])
@pytest.mark.parametrize("name", ["batch_norm", "layer_norm"])
def test_it_can_be_computed_lazily(name, create_graph):
    values = [normal(6, 4), normal(4), normal(4)]
    cotangent = ndl.Tensor(normal(6, 4), requires_grad=False)
    eager, lazy = [ndl.Tensor(v) for v in values], [ndl.Tensor(v) for v in values]
    getattr(ndl, name)(*eager).backward(cotangent)
    with ndl.lazy():
        y = getattr(ndl, name)(*lazy)
        assert y.cached_data is None
        y.backward(cotangent, create_graph=create_graph)
    for a, b in zip(lazy, eager):
        np.testing.assert_array_equal(a.grad.numpy(), b.grad.numpy())


def test_an_op_that_was_computed_on_something_else_since_still_gives_the_right_gradient():
    values, cotangent = [normal(6, 4), normal(4), normal(4)], normal(6, 4)
    x, weight, bias = (ndl.Tensor(v) for v in values)
    y = ndl.batch_norm(x, weight, bias)
    y.backward(ndl.Tensor(cotangent))
    expected = x.grad.numpy()
    y.op.compute(normal(6, 4), values[1], values[2])
    y.backward(ndl.Tensor(cotangent), create_graph=False)
    np.testing.assert_array_equal(x.grad.numpy(), expected)


@pytest.mark.cpu_only("NumPy's blocks")
@pytest.mark.parametrize("name", ["batch_norm", "layer_norm"])
def test_blocks_and_joined_rows_change_nothing_but_the_rounding(name, monkeypatch):
    inputs, cotangent = [ndl.Tensor(v) for v in (normal(60, 10), normal(10), normal(10))], ndl.Tensor(normal(60, 10))

    def results():
        normalization_numpy._joined.cache_clear()
        y = getattr(ndl, name)(*inputs)
        y.backward(cotangent, create_graph=False)
        return [y.numpy(), *[x.grad.numpy() for x in inputs]]

    expected = results()
    monkeypatch.setattr(normalization_numpy, "_COLUMN_BLOCK", 130)
    monkeypatch.setattr(normalization_numpy, "_ROW_BLOCK", 130)
    monkeypatch.setattr(normalization_numpy, "_LARGE", 1)
    monkeypatch.setattr(normalization_numpy, "_WIDE", 45)
    for ours, whole in zip(results(), expected):
        np.testing.assert_allclose(ours, whole, rtol=1e-12, atol=1e-13)
    normalization_numpy._joined.cache_clear()


@pytest.mark.parametrize("name", ["batch_norm", "layer_norm"])
def test_float32_stays_exact_far_from_zero(name):
    # With μ = 1000·σ a variance taken as ⟨x²⟩ − μ² would lose every digit.
    x = (np.random.randn(500, 40) + 1000).astype(np.float32)
    one, zero = init.ones(40), init.zeros(40)
    y = getattr(ndl, name)(ndl.Tensor(x), one, zero).numpy()
    axis = 0 if name == "batch_norm" else 1
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(axis, keepdims=True)) / np.sqrt(wide.var(axis, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, expected, atol=5e-4)  # x itself is rounded by 3e-5


def test_float16_and_mixed_dtypes_work():
    half = nn.LayerNorm1d(4, dtype="float16")(ndl.Tensor(normal(3, 4, dtype="float16")))
    assert half.dtype == "float16" and np.isfinite(half.numpy()).all()
    x = ndl.Tensor(normal(6, 4))
    layer = nn.BatchNorm1d(4)
    y = layer(x)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == "float64" and layer.weight.grad.dtype == "float32"
    assert layer.running_mean.dtype == "float32"


def test_a_single_feature_is_its_own_mean():
    layer = nn.LayerNorm1d(1)
    layer.bias.data = ndl.Tensor([3.0], dtype="float32")
    x = ndl.Tensor(normal(5, 1, dtype="float32"))
    y = layer(x)
    y.backward(ndl.Tensor(normal(5, 1, dtype="float32")), create_graph=False)
    np.testing.assert_array_equal(y.numpy(), np.full((5, 1), 3))
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros((5, 1)))


def test_no_rows_are_normalised_to_no_rows():
    x = init.zeros(0, 3, requires_grad=True)
    layer = nn.LayerNorm1d(3)
    y = layer(x)
    y.backward(init.zeros(0, 3), create_graph=False)
    assert y.shape == x.grad.shape == (0, 3)
    np.testing.assert_array_equal(layer.weight.grad.numpy(), np.zeros(3))


def test_a_constant_channel_gives_the_bias():
    layer = nn.BatchNorm1d(2)
    layer.bias.data = ndl.Tensor([3.0, 4.0], dtype="float32")
    np.testing.assert_array_equal(layer(init.ones(5, 2)).numpy(), [[3, 4]] * 5)


# -- running statistics


def test_running_statistics_follow_the_batches_with_the_biased_variance():
    layer = nn.BatchNorm1d(3, momentum=0.3, dtype="float64")
    mean, var = np.zeros(3), np.ones(3)
    for _ in range(4):
        x = normal(9, 3)
        layer(ndl.Tensor(x))
        mean, var = 0.7 * mean + 0.3 * x.mean(axis=0), 0.7 * var + 0.3 * x.var(axis=0)
    np.testing.assert_allclose(layer.running_mean.numpy(), mean, rtol=1e-13)
    np.testing.assert_allclose(layer.running_var.numpy(), var, rtol=1e-13)


def test_evaluation_uses_the_running_statistics_and_leaves_them():
    layer = randomised(nn.BatchNorm1d(3, dtype="float64"))
    for _ in range(3):
        layer(ndl.Tensor(normal(9, 3)))
    layer.eval()
    mean, var = layer.running_mean.numpy().copy(), layer.running_var.numpy().copy()
    x = normal(4, 3)
    expected = layer.weight.numpy() * (x - mean) / np.sqrt(var + layer.eps) + layer.bias.numpy()
    np.testing.assert_allclose(layer(ndl.Tensor(x)).numpy(), expected, rtol=1e-12)
    np.testing.assert_array_equal(layer.running_mean.numpy(), mean)
    np.testing.assert_array_equal(layer.running_var.numpy(), var)


def test_one_row_can_be_evaluated():
    layer = nn.BatchNorm1d(3).eval()
    assert layer(init.rand(1, 3)).shape == (1, 3)


def test_running_statistics_stay_the_same_tensors_without_a_graph():
    layer = nn.BatchNorm1d(3)
    before = layer.running_mean, layer.running_var
    for _ in range(3):
        layer(ndl.Tensor(normal(9, 3)))
    assert (layer.running_mean, layer.running_var) == before
    assert all(t.is_leaf() and not t.requires_grad for t in before)
    assert [p.shape for p in layer.parameters()] == [(3,), (3,)]


def test_running_statistics_follow_lazily_computed_batches_too():
    layer = nn.BatchNorm1d(3, dtype="float64")
    x = normal(9, 3)
    with ndl.lazy():
        layer(ndl.Tensor(x))
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.1 * x.mean(axis=0), rtol=1e-13)


def test_statistics_of_a_later_batch_do_not_reach_into_an_earlier_evaluation():
    layer = nn.BatchNorm1d(2, dtype="float64").eval()
    x = ndl.Tensor(normal(4, 2))
    y = layer(x)
    layer.train()(ndl.Tensor(normal(4, 2)))
    y.sum().backward(create_graph=False)
    np.testing.assert_allclose(x.grad.numpy(), np.full((4, 2), 1 / np.sqrt(1 + 1e-5)), rtol=1e-12)


# -- errors


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.BatchNorm1d(3)(init.rand(5, 4)), ValueError, r"BatchNorm1d\(dim=3\).*\(N, 3\).*got \(5, 4\)"),
        (lambda: nn.BatchNorm1d(3)(init.rand(3)), ValueError, r"got \(3,\)"),
        (lambda: nn.BatchNorm1d(3)(init.rand(2, 3, 4, 4)), ValueError, r"got \(2, 3, 4, 4\)"),
        (lambda: nn.BatchNorm1d(3)(init.zeros(0, 3)), ValueError, "empty batch"),
        (lambda: nn.BatchNorm1d(3)(ndl.Tensor([[1, 2, 3]])), TypeError, "floating"),
        (lambda: nn.BatchNorm1d(3)(np.ones((2, 3))), TypeError, r"ndl\.Tensor"),
        (lambda: nn.BatchNorm1d(0), ValueError, "dim is a positive integer"),
        (lambda: nn.BatchNorm1d(3, momentum=1.5), ValueError, r"\[0, 1\]"),
        (lambda: nn.BatchNorm1d(3, eps=-1.0), ValueError, "eps"),
        (lambda: nn.LayerNorm1d(3)(init.rand(5, 4)), ValueError, r"LayerNorm1d\(dim=3\).*\(…, 3\).*got \(5, 4\)"),
        (lambda: nn.LayerNorm1d(3)(ndl.Tensor(1.0)), ValueError, r"got \(\)"),
        (lambda: nn.LayerNorm1d(3)(ndl.Tensor([1, 2, 3])), TypeError, "floating"),
        (lambda: nn.LayerNorm1d("3"), TypeError, "dim"),
        (lambda: ndl.layer_norm(init.rand(2, 0), init.rand(0), init.rand(0)), ValueError, "nothing"),
        (lambda: ndl.layer_norm(init.rand(2, 3), init.rand(2), init.rand(3)), ValueError, r"weight of shape \(3,\)"),
        (lambda: ndl.batch_norm(init.rand(2, 3), init.rand(3), init.rand(2)), ValueError, r"bias of shape \(3,\)"),
        (lambda: ndl.batch_norm(ndl.Tensor([1, 2]), init.rand(2), init.rand(2)), ValueError, r"\(N, C, …\)"),
        (
            lambda: ndl.batch_norm(init.rand(2, 3), init.rand(3), init.rand(3), running_mean=init.rand(2)),
            ValueError,
            "running_mean",
        ),
        (
            lambda: ndl.batch_norm(init.rand(2, 3), init.rand(3), init.rand(3), running_var=[1.0]),
            TypeError,
            r"^BatchNorm: running_var, a Tensor of shape \(3,\), is needed, got list",
        ),
        (
            lambda: ndl.batch_norm(init.rand(2, 3), init.rand(3), init.rand(3), momentum="a"),
            TypeError,
            "^BatchNorm: momentum is a number, got str",
        ),
        (
            lambda: ndl.layer_norm(init.rand(2, 3), init.rand(3), init.rand(3), eps=None),
            TypeError,
            "^LayerNorm: eps is",
        ),
        (
            lambda: ndl.layer_norm(init.rand(2, 3), init.rand(3), init.rand(3), eps=-1.0),
            ValueError,
            "^LayerNorm: eps is",
        ),
        (lambda: nn.LayerNorm1d(4, eps=None), TypeError, "^LayerNorm1d: eps is a number, got NoneType"),
        (lambda: nn.LayerNorm(4, eps="a"), TypeError, "^LayerNorm: eps is a number, got str"),
        (lambda: nn.BatchNorm1d(4, momentum=None), TypeError, "^BatchNorm1d: momentum is a number, got NoneType"),
        (lambda: nn.BatchNorm2d(np.array([None])), TypeError, "^BatchNorm2d: dim is a positive integer"),
    ],
)
def test_errors_say_what_would_have_worked(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_layout_is_named_once_whatever_the_number_of_axes():
    with pytest.raises(ValueError, match=r"an input of shape \(…, 3\) is needed, got \(2, 2, 4\)$"):
        nn.LayerNorm1d(3)(init.rand(2, 2, 4))


def test_a_refused_batch_changes_no_statistics():
    layer = nn.BatchNorm1d(3)
    with pytest.raises(ValueError):
        layer(init.zeros(0, 3))
    np.testing.assert_array_equal(layer.running_mean.numpy(), np.zeros(3))
