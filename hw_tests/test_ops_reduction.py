"""Sums, means, extrema, and log-sum-exp with its kin: values for any axes, and no overflow."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ops_cases import Draw

import needle as ndl
from needle import ops

REDUCTIONS = {
    "summation": (ops.summation, np.sum),
    "mean": (ops.mean, np.mean),
    "max": (ops.max, np.max),
    "min": (ops.min, np.min),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@given(data=st.data())
def test_reductions_over_any_axes_give_what_numpy_gives(name, data):
    fn, reference = REDUCTIONS[name]
    d = Draw(data.draw)
    x = d.tensor(d.shape(min_side=1))
    axes = d.pick([None, d.axes(x.ndim), *range(-x.ndim, x.ndim)])
    for keepdims in (False, True):
        found = fn(x, axes, keepdims=keepdims)
        np.testing.assert_allclose(found.numpy(), reference(x.numpy(), axis=axes, keepdims=keepdims), rtol=1e-14)
        assert np.array_equal(
            getattr(x, {"summation": "sum"}.get(name, name))(axes, keepdims=keepdims).numpy(), found.numpy()
        )


@given(data=st.data())
def test_the_gradient_of_a_sum_repeats_its_cotangent(data):
    d = Draw(data.draw)
    x = d.tensor(d.shape())
    axes = d.axes(x.ndim)
    y = ops.summation(x, axes, keepdims=True)
    g = d.array(y.shape)
    y.backward(g)
    assert np.array_equal(x.grad.numpy(), np.broadcast_to(g, x.shape))


def test_sums_over_no_elements_are_zero():
    assert ops.summation(ndl.Tensor(np.zeros((0, 3)))).item() == 0
    assert ops.summation(ndl.Tensor(np.zeros((0, 3))), 0).numpy().tolist() == [0, 0, 0]


def test_a_reduction_over_no_axes_keeps_every_element():
    x = np.arange(6.0).reshape(2, 3)
    for fn in (ops.summation, ops.mean, ops.max, ops.min, ops.logsumexp):
        assert np.array_equal(fn(ndl.Tensor(x), ()).numpy(), x)


def test_float32_is_summed_in_pairs_not_one_by_one():
    x = ndl.Tensor(np.full(10**6, 0.1), dtype="float32")
    exact = 10**6 * float(np.float32(0.1))
    assert abs(ops.summation(x).item() - exact) < 1e-6 * exact


# -------------------------------------------------------------------------------------------------------- log-sum-exp


def log_sum_exp(values):
    """In exact sums of correctly rounded exponentials, with the maximum out."""
    top = max(values)
    return top + math.log(math.fsum(math.exp(v - top) for v in values))


moderate = st.lists(st.floats(-700, 700), min_size=1, max_size=8)


@given(moderate)
def test_logsumexp_is_the_logarithm_of_the_sum_of_exponentials(values):
    assert math.isclose(ops.logsumexp(ndl.Tensor(values)).item(), log_sum_exp(values), rel_tol=1e-14, abs_tol=1e-14)


@given(moderate)
def test_logsoftmax_and_softmax_are_what_logsumexp_says(values):
    total = log_sum_exp(values)
    x = ndl.Tensor(values)
    np.testing.assert_allclose(ops.logsoftmax(x).numpy(), np.array(values) - total, rtol=1e-13, atol=1e-12)
    np.testing.assert_allclose(ops.softmax(x).numpy(), [math.exp(v - total) for v in values], rtol=1e-12, atol=1e-300)


@given(data=st.data())
def test_logsumexp_over_axes_is_that_of_each_group(data):
    d = Draw(data.draw)
    x = d.tensor(d.shape(min_side=1))
    axes = tuple(sorted(axis % x.ndim for axis in d.axes(x.ndim)))
    rest = tuple(i for i in range(x.ndim) if i not in axes)
    groups = x.numpy().transpose(*rest, *axes).reshape([x.shape[i] for i in rest] + [-1])
    expected = np.apply_along_axis(log_sum_exp, -1, groups)
    np.testing.assert_allclose(ops.logsumexp(x, axes).numpy(), expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("dtype, large", [("float32", 1e38), ("float64", 8e307), ("float16", 3e4)])
def test_nothing_overflows_at_the_ends_of_a_dtype(dtype, large):
    x = ndl.Tensor(np.array([-large, 0.0, large], dtype=dtype))
    top = np.array(large, dtype).item()
    assert ops.logsumexp(x).item() == top
    assert ops.softmax(x).numpy().tolist() == [0, 0, 1]
    assert ops.logsoftmax(x).numpy().tolist() == [-2 * top, -top, 0]
    ops.logsumexp(x).backward()
    assert x.grad.numpy().tolist() == [0, 0, 1]
    ops.softmax(x).backward(np.array([0, 1.0, 0]))
    assert x.grad.numpy().tolist() == [0, 0, 0]
    ops.logsoftmax(x).backward(np.array([0, 1.0, 0]))
    assert x.grad.numpy().tolist() == [0, 1, -1]


def test_minus_infinity_is_the_logarithm_of_nothing():
    assert ops.logsumexp(ndl.Tensor([-np.inf, 1.0])).item() == 1.0
    assert ops.logsumexp(ndl.Tensor([-np.inf, -np.inf])).item() == -np.inf
    assert ops.logsumexp(ndl.Tensor(np.zeros((0, 2))), 0).numpy().tolist() == [-np.inf, -np.inf]
    assert ops.softmax(ndl.Tensor([-np.inf, 0.0])).numpy().tolist() == [0, 1]
    assert ops.logsoftmax(ndl.Tensor([-np.inf, 0.0])).numpy().tolist() == [-np.inf, 0]


@pytest.mark.parametrize("fn", [ops.softmax, ops.logsoftmax])
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_empty_rows_stay_empty(fn, shape):
    assert fn(ndl.Tensor(np.zeros(shape))).shape == shape


@given(moderate)
def test_rows_of_softmax_sum_to_one_and_their_gradients_to_zero(values):
    x = ndl.Tensor(values)
    y = ops.softmax(x)
    assert math.isclose(y.numpy().sum(), 1, rel_tol=1e-14)
    y.backward(np.random.rand(len(values)))
    assert abs(x.grad.numpy().sum()) < 1e-14


@pytest.mark.parametrize("fn", [ops.logsumexp, ops.softmax, ops.logsoftmax])
def test_integers_are_taken_as_floats(fn):
    assert np.array_equal(fn(ndl.Tensor([1, 2])).numpy(), fn(ndl.Tensor([1.0, 2.0])).numpy())


def test_sums_and_means_of_half_precision_do_not_stop_counting():
    ones = ndl.Tensor(np.ones((3000, 2), "float16"))
    assert ops.mean(ndl.Tensor(np.full(100_000, 1.0, "float16"))).item() == 1
    bias = ndl.Tensor(np.zeros(2, "float16"))
    (ones + bias).sum().backward(create_graph=False)
    assert bias.grad.dtype == "float16" and bias.grad.numpy().tolist() == [3000, 3000]


def test_a_flag_is_no_axis():
    for reduce in (ops.summation, ops.mean, ops.max, ops.min):
        with pytest.raises(TypeError, match="integers"):
            reduce(ndl.Tensor([[1.0, 2.0]]), True)
