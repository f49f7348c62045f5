"""One convention at kinks: the subgradient of least norm. Functions that are equal have equal gradients there too."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import needle as ndl
from needle import ops

# Few distinct values, so that zeros and ties are common.
ties = hnp.arrays(np.float64, hnp.array_shapes(max_dims=2, max_side=4), elements=st.sampled_from([-1.0, 0.0, 1.0]))


def gradient(fn, *arrays):
    """The gradients of ``Σ g·fn(arrays)`` for a fixed g without zeros, the same both ways of backward."""
    both = []
    for create_graph in (True, False):
        tensors = [ndl.Tensor(a) for a in arrays]
        out = fn(*tensors)
        g = np.arange(1.0, out.size + 1).reshape(out.shape)
        out.backward(g, create_graph=create_graph)
        both.append([x.grad.numpy() for x in tensors])
    assert all(np.array_equal(a, b) for a, b in zip(*both))
    return both[0]


EQUAL = {
    "|x|": [
        ops.abs,
        lambda x: ops.maximum(x, -x),
        lambda x: -ops.minimum(x, -x),
        lambda x: ops.relu(x) + ops.relu(-x),
        lambda x: ops.max(ops.stack([x, -x]), 0),
        lambda x: ops.maximum(x, 0.0) - ops.minimum(x, 0.0),
        lambda x: x * ops.sign(x),
    ],
    "max(x, 0)": [
        ops.relu,
        lambda x: ops.maximum(x, 0.0),
        lambda x: ops.maximum(0.0, x),
        lambda x: -ops.minimum(-x, 0.0),
        lambda x: ops.where(x > 0, x, 0.0),
    ],
}


@pytest.mark.parametrize("name", EQUAL)
@given(x=ties)
def test_equal_functions_have_equal_gradients_at_kinks_too(name, x):
    values = [fn(ndl.Tensor(x)).numpy() for fn in EQUAL[name]]
    gradients = [gradient(fn, x)[0] for fn in EQUAL[name]]
    for value, grad in zip(values, gradients):
        assert np.array_equal(value, values[0])
        assert np.array_equal(grad, gradients[0])


@pytest.mark.parametrize("fn", [ops.relu, ops.abs, lambda x: ops.maximum(x, 0.0), lambda x: ops.minimum(x, 0.0)])
def test_the_subgradient_of_least_norm_at_a_kink_at_zero_is_zero(fn):
    assert gradient(fn, np.zeros(2))[0].tolist() == [0, 0]
    assert gradient(fn, np.array(-0.0))[0] == 0


@given(ties)
def test_a_pair_of_maximum_and_minimum_is_a_pair_of_its_arguments(a):
    """max(a, b) + min(a, b) = a + b, whose gradients are exact."""
    b = np.roll(a, 1)
    found = gradient(lambda x, y: ops.maximum(x, y) + ops.minimum(x, y), a, b)
    expected = gradient(ops.add, a, b)
    assert all(np.array_equal(x, y) for x, y in zip(found, expected))


@given(ties)
def test_arguments_that_tie_get_equal_shares(a):
    g = np.arange(1.0, a.size + 1).reshape(a.shape)
    for fn in (ops.maximum, ops.minimum):
        assert all(np.array_equal(grad, g / 2) for grad in gradient(fn, a, a.copy()))


@given(ties)
def test_elements_that_tie_share_equally_and_others_get_nothing(x):
    for fn, extreme in ((ops.max, x.max()), (ops.min, x.min())):
        hit = x == extreme
        np.testing.assert_allclose(gradient(fn, x)[0], hit / hit.sum(), rtol=1e-15)


@given(ties)
def test_min_is_minus_max_of_minus(x):
    for axes in [None, *range(x.ndim)]:
        found = gradient(lambda a, axes=axes: ops.min(a, axes), x)
        expected = gradient(lambda a, axes=axes: -ops.max(-a, axes), x)
        assert np.array_equal(found, expected)


@given(ties)
def test_max_over_axes_is_the_same_in_any_shape_of_its_elements(x):
    flat = gradient(lambda a: ops.max(ops.reshape(a, (-1,)), 0), x)
    assert np.array_equal(gradient(ops.max, x), flat)


def test_a_pair_in_max_is_maximum():
    for a, b in itertools.product([-1.0, 0.0, 1.0], repeat=2):
        pair = gradient(lambda x, y: ops.max(ops.stack([x, y]), 0), np.array(a), np.array(b))
        assert pair == gradient(ops.maximum, np.array(a), np.array(b))


def test_where_has_no_kink_its_gradient_goes_where_the_value_came_from():
    a, b = gradient(lambda x, y: ops.where(ndl.Tensor([True, False]), x, y), np.zeros(2), np.zeros(2))
    assert (a.tolist(), b.tolist()) == ([1, 0], [0, 2])


@pytest.mark.parametrize("fn", [ops.relu, ops.abs, ops.max, ops.min, lambda x: ops.maximum(x, 0.0)])
def test_second_derivatives_at_kinks_are_zero_not_nan(fn):
    x = ndl.Tensor([0.0, 0.0, 1.0])
    first = ndl.grad(fn(x) * 2.0, x)
    second = ndl.grad(first, x, allow_unused=True) if first.requires_grad else None
    assert second is None or second.numpy().tolist() == [0, 0, 0]


def test_nan_is_not_hidden():
    x = ndl.Tensor([np.nan, 1.0])
    for y in (ops.max(x), ops.min(x), ops.maximum(x, 0.0)[0], ops.minimum(x, 0.0)[0], ops.relu(x)[0], ops.abs(x)[0]):
        assert np.isnan(y.item())


def bias_relu_of_zero(x):
    return ops.bias_relu(x, ndl.Tensor(np.zeros(x.shape)))


def one_step_of_a_relu_net(x):
    one, zero = ndl.Tensor([[1.0]]), ndl.Tensor([[0.0]])
    return ops.reshape(ops.rnn(ops.reshape(x, (1, 1, 1)), zero, one, one, nonlinearity="relu"), (1,))


PASSING = {
    "relu": ops.relu,
    "bias_relu": bias_relu_of_zero,
    "maximum(x, 0)": lambda x: ops.maximum(x, 0.0),
    "minimum(0, x)": lambda x: ops.minimum(0.0, x),
    "maximum(x, y)": lambda x: ops.maximum(x, ndl.Tensor(np.zeros(x.shape))),
    "minimum(x, y)": lambda x: ops.minimum(ndl.Tensor(np.zeros(x.shape)), x),
    "a step of a relu net": one_step_of_a_relu_net,
}


@pytest.mark.parametrize("fn", PASSING.values(), ids=PASSING)
def test_the_gradient_passes_where_the_value_is_nan(fn):
    assert gradient(fn, np.array([np.nan]))[0].tolist() == [1]


def test_both_arguments_of_a_maximum_get_the_gradient_where_one_is_nan():
    for fn in (ops.maximum, ops.minimum):
        for pair in ((np.nan, 1.0), (1.0, np.nan), (np.nan, np.nan)):
            assert [g.item() for g in gradient(fn, *map(np.array, pair))] == [1, 1]


@pytest.mark.parametrize("name", ["relu", "maximum", "minimum"])
def test_pytorch_passes_the_gradient_at_nan_and_kinks_alike(name):
    torch = pytest.importorskip("torch")
    arrays = [np.array([-1.0, 0.0, 1.0, np.nan, np.nan, 1.0]), np.array([0.0, 0.0, 0.0, 0.0, np.nan, np.nan])]
    arrays = arrays[:1] if name == "relu" else arrays
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    out = getattr(torch, name)(*theirs)
    out.backward(torch.arange(1.0, 7.0, dtype=torch.float64))
    for mine, their in zip(gradient(getattr(ops, name), *arrays), theirs):
        assert np.array_equal(mine, their.grad.numpy())


@pytest.mark.parametrize("fn", [ops.abs, ops.max, ops.min])
def test_the_gradient_of_abs_and_of_extrema_over_axes_is_nan_where_the_value_is(fn):
    x = ndl.Tensor([np.nan, 1.0])
    with np.errstate(invalid="ignore"):
        fn(x).sum().backward()
    assert np.isnan(x.grad.numpy()[0])
