"""Linear layers, activations, containers and dropout: values and gradients, draws, errors."""

import numpy as np
import pytest

import needle as ndl
from needle import init, nn
from needle.gradcheck import gradcheck, gradgradcheck

DTYPES = ["float32", "float64"]


def normal(*shape, dtype="float64"):
    return np.random.randn(*shape).astype(dtype)


# -- Linear


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5, 3), (1, 3), (2, 4, 3), (3,), (0, 3)])
def test_linear_is_that_of_torch(torch, shape, bias, dtype):
    from torch_reference import assert_agree

    mine = nn.Linear(3, 2, bias=bias, dtype=dtype)
    other = torch.nn.Linear(3, 2, bias=bias, dtype=getattr(torch, dtype))
    weights = [(mine.weight, other.weight, np.transpose)]
    if bias:
        weights.append((mine.bias, other.bias, np.ravel))
    assert_agree(mine, other, [normal(*shape, dtype=dtype)], weights)


def test_linear_draws_the_weight_and_then_the_bias():
    np.random.seed(5)
    layer = nn.Linear(4, 3)
    np.random.seed(5)
    np.testing.assert_array_equal(layer.weight.numpy(), init.kaiming_uniform(4, 3).numpy())
    np.testing.assert_array_equal(layer.bias.numpy(), init.kaiming_uniform(3, 1).numpy().reshape(1, 3))


def test_linear_without_bias_has_one_parameter():
    layer = nn.Linear(4, 3, bias=False)
    assert layer.bias is None and len(layer.parameters()) == 1


def test_linear_takes_a_bias_without_the_leading_axis_too():
    layer = nn.Linear(4, 3, dtype="float64")
    x = normal(5, 4)
    before = layer(ndl.Tensor(x)).numpy()
    layer.bias = nn.Parameter(layer.bias.numpy().reshape(3))
    y = layer(ndl.Tensor(x))
    np.testing.assert_array_equal(y.numpy(), before)
    y.sum().backward(create_graph=False)
    np.testing.assert_array_equal(layer.bias.grad.numpy(), [5, 5, 5])


@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3), (3,)])
@pytest.mark.parametrize("bias", [(2,), (1, 2)])
def test_the_gradients_of_linear_hold_to_second_order(shape, bias):
    inputs = [normal(*shape), normal(3, 2), normal(*bias)]
    assert gradcheck(ndl.linear, inputs)
    assert gradgradcheck(ndl.linear, inputs)


def test_linear_is_one_node():
    layer = nn.Linear(3, 2)
    y = layer(init.rand(4, 3))
    assert y.op.__class__ is ndl.ops.Linear
    assert set(y.inputs) >= {layer.weight, layer.bias}


def test_linear_computes_no_gradient_for_data():
    layer = nn.Linear(3, 2)
    y = layer(init.rand(4, 3))
    to_x, to_weight, to_bias = y.op.gradient_as_tuple(init.ones(4, 2), y)
    assert to_x is None and to_weight.shape == (3, 2) and to_bias.shape == (1, 2)


def test_linear_promotes_mixed_dtypes_and_gives_each_its_own_gradient():
    layer = nn.Linear(3, 2, dtype="float64")
    x = ndl.Tensor(normal(4, 3, dtype="float32"))
    y = layer(x)
    y.sum().backward()
    assert y.dtype == "float64" and x.grad.dtype == "float32" and layer.weight.grad.dtype == "float64"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.Linear(3, 2)(init.rand(5, 4)), ValueError, r"shape \(…, 3\) is needed, got \(5, 4\)"),
        (lambda: nn.Linear(3, 2)(ndl.Tensor(1.0)), ValueError, r"got \(\)"),
        (lambda: nn.Linear(3, 2)(np.ones((5, 3))), TypeError, r"ndl\.Tensor"),
        (lambda: nn.Linear(0, 2), ValueError, "in_features is a positive integer, got 0"),
        (lambda: nn.Linear(3, 2.5), TypeError, "out_features is a positive integer, got 2.5"),
        (lambda: ndl.linear(init.rand(2, 3), init.rand(4, 5)), ValueError, r"\(2, 3\) @ \(4, 5\)"),
        (lambda: ndl.linear(init.rand(2, 3), init.rand(3)), ValueError, r"\(in, out\), got \(3,\)"),
        (lambda: ndl.linear(init.rand(2, 3), init.rand(3, 5), init.rand(2, 5)), ValueError, r"\(5,\) or \(1, 5\)"),
    ],
)
def test_linear_says_what_would_have_worked(call, error, message):
    with pytest.raises(error, match=message):
        call()


# -- the small ones


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["ReLU", "Tanh", "Sigmoid", "Flatten", "Identity"])
def test_activations_and_shapes_are_those_of_torch(torch, name, dtype):
    from torch_reference import assert_agree

    assert_agree(getattr(nn, name)(), getattr(torch.nn, name)(), [normal(4, 3, 2, dtype=dtype)])


def test_flatten_keeps_the_batch_even_if_it_is_empty():
    assert nn.Flatten()(init.zeros(0, 3, 2)).shape == (0, 6)
    assert nn.Flatten()(init.zeros(5)).shape == (5, 1)
    with pytest.raises(ValueError, match="0-d"):
        nn.Flatten()(ndl.Tensor(1.0))


def test_sequential_applies_one_after_the_other_and_shows_its_modules():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), abs)
    x = init.rand(2, 3)
    np.testing.assert_array_equal(model(x).numpy(), np.maximum(model.modules[0](x).numpy(), 0))
    assert nn.Sequential()(x) is x
    with pytest.raises(TypeError, match="unpacks"):
        nn.Sequential([nn.ReLU()])


def test_residual_adds_its_input():
    x = ndl.Tensor([-1.0, 2.0])
    y = nn.Residual(nn.ReLU())(x)
    np.testing.assert_array_equal(y.numpy(), [-1, 4])
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1, 2])


def test_residual_refuses_to_broadcast():
    with pytest.raises(ValueError, match=r"\(5, 3\) into \(5, 1\)"):
        nn.Residual(nn.Linear(3, 1))(init.rand(5, 3))


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: nn.Residual(None), "Residual: fn is a NoneType: a module is needed"),
        (lambda: nn.Residual(nn.ReLU), r"Residual: fn is the class ReLU: an instance is needed, ReLU\(…\)"),
        (lambda: nn.Residual(lambda x: None)(init.rand(2)), r"Residual: fn gave NoneType, a Tensor of shape \(2,\)"),
        (lambda: nn.Residual(nn.ReLU())([1.0]), "Residual: a Tensor is needed as input, got list"),
        (lambda: nn.Sequential(nn.Tanh(), nn.ReLU), r"Sequential: module 1 is the class ReLU: an instance is needed"),
        (lambda: nn.Sequential(3), "Sequential: module 0 is a int: a module is needed"),
        (
            lambda: nn.Sequential([nn.ReLU()]),
            r"Sequential: module 0 is a list: .*: Sequential\(\*modules\) unpacks them",
        ),
    ],
)
def test_what_is_put_together_are_modules_that_give_tensors(call, text):
    with pytest.raises(TypeError, match=rf"^{text}"):
        call()


# -- Dropout


@pytest.mark.cpu_only("a GPU draws by a generator of its own")
def test_dropout_draws_its_mask_as_randb_and_scales_what_it_keeps():
    x = normal(50, 20)
    np.random.seed(9)
    y = nn.Dropout(0.3)(ndl.Tensor(x)).numpy()
    np.random.seed(9)
    mask = np.random.rand(50, 20) <= 0.7
    np.testing.assert_allclose(y, x * mask / 0.7, rtol=1e-15)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dropout_keeps_the_mean_the_dtype_and_its_mask_for_the_gradient(dtype):
    x = ndl.Tensor(np.ones(40_000, dtype=dtype))
    y = nn.Dropout(0.25)(x)
    assert y.dtype == dtype
    # An element is 4/3 with probability 3/4: its deviation is √(1/3), that of the mean of 40,000 is 200 times less.
    assert abs(y.numpy().mean() - 1) < 5 * np.sqrt(1 / 3) / 200
    y.sum().backward(create_graph=False)
    np.testing.assert_array_equal(x.grad.numpy(), y.numpy())


def test_dropout_passes_its_input_on_in_evaluation_and_draws_nothing():
    x = init.rand(3)
    state = np.random.get_state()[2]
    assert nn.Dropout(0.5).eval()(x) is x
    assert np.random.get_state()[2] == state


def test_dropout_of_zero_probability_keeps_everything():
    x = init.rand(100)
    np.testing.assert_array_equal(nn.Dropout(0.0)(x).numpy(), x.numpy())


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, float("nan")])
def test_dropout_refuses_what_is_no_probability_below_one(p):
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        nn.Dropout(p)


@pytest.mark.parametrize("p", ["a", None, [0.5], True], ids=repr)
def test_dropout_refuses_what_is_no_number(p):
    for make in (nn.Dropout, lambda p: nn.MultiHeadAttention(dropout=p)):
        with pytest.raises(TypeError, match=rf"^Dropout: p is a number, got {type(p).__name__}"):
            make(p)


def test_dropout_of_integers_says_what_would_have_worked():
    with pytest.raises(TypeError, match="float32"):
        nn.Dropout()(ndl.Tensor([1, 2]))
