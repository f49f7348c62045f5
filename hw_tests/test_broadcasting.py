"""Broadcasting is two ops, `BroadcastTo` and `SumTo`, each the other's gradient in one node, and nothing else."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from shared import ops_in

import needle as ndl
from needle import ops

BINARY = {
    ops.EWiseAdd: (lambda a, b: a + b, np.add),
    ops.EWiseMul: (lambda a, b: a * b, np.multiply),
    ops.EWiseDiv: (lambda a, b: a / b, np.divide),
    ops.EWisePow: (lambda a, b: a**b, np.power),
    ops.Maximum: (ops.maximum, np.maximum),
    ops.Minimum: (ops.minimum, np.minimum),
}

binary = pytest.mark.parametrize("op", BINARY, ids=lambda op: op.__name__)
two_shapes = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=3)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


@st.composite
def small_and_large(draw):
    """A shape, and another one that it broadcasts to."""
    large = draw(shapes)
    small = tuple([1 if draw(st.booleans()) else n for n in large[draw(st.integers(0, len(large))) :]])
    assume(small != large)
    return small, large


def random(shape):
    return np.random.uniform(0.5, 2.0, shape)


def summed(array, shape):
    """`array` summed to `shape`, axis by axis."""
    while array.ndim > len(shape):
        array = array.sum(0)
    for axis, size in enumerate(shape):
        if size == 1:
            array = array.sum(axis, keepdims=True)
    return array


# ------------------------------------------------------------------------------------------------------------ the pair


@given(small_and_large())
def test_broadcast_to_is_numpys(pair):
    small, large = pair
    x = random(small)
    assert np.array_equal(ops.broadcast_to(ndl.Tensor(x), large).numpy(), np.broadcast_to(x, large))


@given(small_and_large())
def test_sum_to_sums_what_a_broadcast_repeats(pair):
    small, large = pair
    x = random(large)
    y = ops.sum_to(ndl.Tensor(x), small)
    assert y.shape == small
    np.testing.assert_allclose(y.numpy(), summed(x, small), rtol=1e-14)


@given(small_and_large())
def test_the_gradient_of_broadcast_to_is_one_sum_to(pair):
    small, large = pair
    x, g = ndl.Tensor(random(small)), ndl.Tensor(random(large))
    ops.broadcast_to(x, large).backward(g)
    assert ops_in(x.grad) == [ops.SumTo]
    np.testing.assert_allclose(x.grad.numpy(), summed(g.numpy(), small), rtol=1e-14)


@given(small_and_large())
def test_the_gradient_of_sum_to_is_one_broadcast_to(pair):
    small, large = pair
    x, g = ndl.Tensor(random(large)), ndl.Tensor(random(small))
    ops.sum_to(x, small).backward(g)
    assert ops_in(x.grad) == [ops.BroadcastTo]
    assert np.array_equal(x.grad.numpy(), np.broadcast_to(g.numpy(), large))


@given(small_and_large())
def test_the_two_are_adjoint(pair):
    """⟨broadcast(a), b⟩ = ⟨a, sum(b)⟩"""
    small, large = pair
    a, b = random(small), random(large)
    left = (ops.broadcast_to(ndl.Tensor(a), large).numpy() * b).sum()
    right = (a * ops.sum_to(ndl.Tensor(b), small).numpy()).sum()
    assert np.isclose(left, right, rtol=1e-13, atol=0)


@pytest.mark.parametrize("fn", [ops.broadcast_to, ops.sum_to])
@given(shape=shapes)
def test_the_own_shape_needs_no_node(fn, shape):
    x = ndl.Tensor(random(shape))
    assert fn(x, shape) is x


def test_sum_to_is_one_reduction(monkeypatch):
    calls = []

    class Counting(np.ndarray):
        def sum(self, *args, **kwargs):
            calls.append(kwargs)
            return np.asarray(self).sum(*args, **kwargs)

    ops.SumTo((3, 1)).compute(random((2, 3, 4)).view(Counting))
    assert calls == [{"axis": (0, 2), "dtype": np.float64}]


@pytest.mark.cpu_only("looks into NumPy memory")
@pytest.mark.cpu_only("whether arrays share memory")
def test_a_broadcast_is_a_view():
    x = ndl.Tensor(random((1, 3)))
    assert np.shares_memory(ops.broadcast_to(x, (4, 3)).numpy(), x.numpy())


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_sum_to_keeps_narrow_dtypes(dtype):
    assert ops.sum_to(ndl.Tensor(np.ones((2, 3), dtype)), (3,)).dtype == dtype


# ----------------------------------------------------------------------------------------------- in front of others


@binary
@given(drawn=two_shapes)
def test_operands_of_any_two_shapes_give_what_numpy_gives(op, drawn):
    fn, reference = BINARY[op]
    a, b = (random(shape) for shape in drawn.input_shapes)
    result = fn(ndl.Tensor(a), ndl.Tensor(b))
    assert result.shape == drawn.result_shape
    np.testing.assert_allclose(result.numpy(), reference(a, b), rtol=1e-15)


@binary
@given(drawn=two_shapes)
def test_the_graph_shows_a_broadcast_where_there_is_one_and_only_there(op, drawn):
    a, b = (ndl.Tensor(random(shape)) for shape in drawn.input_shapes)
    expected = [ops.BroadcastTo for shape in drawn.input_shapes if shape != drawn.result_shape]
    assert ops_in(BINARY[op][0](a, b)) == [*expected, op]


@binary
@given(drawn=two_shapes)
def test_gradients_have_the_shapes_of_their_operands(op, drawn):
    a, b = (ndl.Tensor(random(shape)) for shape in drawn.input_shapes)
    for create_graph in (True, False):
        BINARY[op][0](a, b).backward(random(drawn.result_shape), create_graph=create_graph)
        assert (a.grad.shape, b.grad.shape) == drawn.input_shapes


@given(drawn=two_shapes)
def test_the_gradients_of_a_sum_are_its_cotangent_summed_to_the_operands(drawn):
    a, b = (ndl.Tensor(random(shape)) for shape in drawn.input_shapes)
    g = random(drawn.result_shape)
    (a + b).backward(g)
    for x in (a, b):
        np.testing.assert_allclose(x.grad.numpy(), summed(g, x.shape), rtol=1e-14)


@given(drawn=hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, min_side=0, max_side=3))
def test_where_broadcasts_all_three(drawn):
    condition, a, b = (random(shape) for shape in drawn.input_shapes)
    condition = condition > 1
    x, y = ndl.Tensor(a), ndl.Tensor(b)
    result = ops.where(ndl.Tensor(condition), x, y)
    assert np.array_equal(result.numpy(), np.where(condition, a, b))
    g = random(drawn.result_shape)
    result.backward(g)
    np.testing.assert_allclose(x.grad.numpy(), summed(np.where(condition, g, 0), a.shape), rtol=1e-14)
    np.testing.assert_allclose(y.grad.numpy(), summed(np.where(condition, 0, g), b.shape), rtol=1e-14)


def test_a_bias_costs_one_broadcast_and_one_sum():
    x, bias = ndl.Tensor(random((4, 3))), ndl.Tensor(random((1, 3)))
    y = x + bias
    assert ops_in(y) == [ops.BroadcastTo, ops.EWiseAdd]
    y.backward(ndl.Tensor(random((4, 3))))
    assert ops_in(bias.grad) == [ops.SumTo]
    assert ops_in(x.grad) == []


def test_a_number_is_no_broadcast():
    x = ndl.Tensor(random((4, 3)))
    assert ops_in(2 * x + 1) == [ops.MulScalar, ops.AddScalar]


# -------------------------------------------------------------------------------------------------------------- errors


@binary
def test_shapes_that_do_not_broadcast_are_named(op):
    a, b = ndl.Tensor(random((2, 3))), ndl.Tensor(random((2,)))
    with pytest.raises(ValueError, match=rf"^{op.__name__}: shapes \(2, 3\) and \(2,\) do not broadcast"):
        BINARY[op][0](a, b)


@given(shapes, shapes)
def test_broadcast_to_refuses_exactly_what_numpy_refuses(old, new):
    x = random(old)
    try:
        expected = np.broadcast_to(x, new)
    except ValueError:
        with pytest.raises(ValueError, match=r"^BroadcastTo: shape .* does not broadcast to"):
            ops.broadcast_to(ndl.Tensor(x), new)
        with pytest.raises(ValueError, match=r"^SumTo: shape .* is no broadcast of"):
            ops.sum_to(ndl.Tensor(random(new)), old)
    else:
        assert np.array_equal(ops.broadcast_to(ndl.Tensor(x), new).numpy(), expected)
        assert ops.sum_to(ndl.Tensor(random(new)), old).shape == old
