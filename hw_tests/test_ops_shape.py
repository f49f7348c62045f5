"""Ops that move elements: the same elements in the same places as NumPy, without copies where NumPy makes none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ops_cases import Draw

import needle as ndl
from needle import ops


def tensors_of(data):
    d = Draw(data.draw)
    return d, d.tensor(d.shape())


@given(data=st.data())
def test_reshape_keeps_the_order_of_the_elements_in_any_layout(data):
    _, x = tensors_of(data)
    for shape in [(-1,), (1, -1), x.shape[::-1], (*x.shape, 1)] if x.size else [(0,), (3, 0, 2), x.shape[::-1]]:
        assert np.array_equal(ops.reshape(x, shape).numpy(), x.numpy().reshape(shape))
        assert np.array_equal(x.reshape(*shape).numpy(), x.numpy().reshape(shape))


@given(data=st.data())
def test_transpose_swaps_two_axes_by_default_the_last(data):
    d = Draw(data.draw)
    x = d.tensor(d.shape(min_dims=2))
    first, second = (d.draw(st.integers(-x.ndim, x.ndim - 1)) for _ in range(2))
    assert np.array_equal(ops.transpose(x, (first, second)).numpy(), x.numpy().swapaxes(first, second))
    assert np.array_equal(x.transpose().numpy(), x.numpy().swapaxes(-1, -2))


@given(data=st.data())
def test_permute_is_numpys_transpose(data):
    d, x = tensors_of(data)
    axes = d.draw(st.permutations(range(x.ndim)))
    assert np.array_equal(ops.permute(x, axes).numpy(), x.numpy().transpose(axes))
    assert np.array_equal(x.permute([axis - x.ndim for axis in axes]).numpy(), x.numpy().transpose(axes))


@given(data=st.data())
def test_the_gradient_of_permute_puts_elements_back(data):
    d, x = tensors_of(data)
    axes = d.draw(st.permutations(range(x.ndim)))
    y = ops.permute(x, axes)
    y.backward(y.detach())
    assert np.array_equal(x.grad.numpy(), x.numpy())


@given(data=st.data())
def test_flip_reverses_along_its_axes(data):
    d, x = tensors_of(data)
    axes = d.axes(x.ndim)
    assert np.array_equal(ops.flip(x, axes).numpy(), np.flip(x.numpy(), axes))
    assert np.array_equal(ops.flip(x).numpy(), np.flip(x.numpy()))
    assert np.array_equal(ops.flip(ops.flip(x, axes), axes).numpy(), x.numpy())


@given(data=st.data())
def test_expand_dims_and_squeeze_undo_each_other(data):
    d, x = tensors_of(data)
    count = d.size(low=0, high=2)
    axes = tuple(d.draw(st.permutations(range(x.ndim + count))))[:count]
    y = ops.expand_dims(x, axes)
    assert np.array_equal(y.numpy(), np.expand_dims(x.numpy(), axes))
    assert y.squeeze(axes).shape == x.shape
    assert ops.squeeze(y).shape == np.squeeze(x.numpy()).shape
    assert np.array_equal(x.expand_dims(0).numpy(), x.numpy()[None])


@given(data=st.data())
def test_concatenate_and_stack_join_as_numpy_does(data):
    d, x = tensors_of(data)
    y = d.tensor(x.shape)
    for axis in range(-x.ndim, x.ndim):
        expected = np.concatenate([x.numpy(), y.numpy(), x.numpy()], axis)
        assert np.array_equal(ops.concatenate([x, y, x], axis).numpy(), expected)
    for axis in range(-x.ndim - 1, x.ndim + 1):
        assert np.array_equal(ops.stack([x, y], axis).numpy(), np.stack([x.numpy(), y.numpy()], axis))


@given(data=st.data())
def test_split_takes_apart_what_stack_joined(data):
    d = Draw(data.draw)
    x = d.tensor(d.shape(min_dims=1))
    axis = d.draw(st.integers(-x.ndim, x.ndim - 1))
    items = ops.split(x, axis)
    assert len(items) == x.shape[axis]
    for i, item in enumerate(items):
        assert np.array_equal(item.numpy(), x.numpy().take(i, axis))
    if items:
        assert np.array_equal(ops.stack(list(items), axis).numpy(), x.numpy())


def test_concatenating_one_tensor_twice_adds_its_gradients():
    x = ndl.Tensor([1.0, 2.0])
    ops.concatenate([x, x]).backward(np.array([1.0, 10.0, 100.0, 1000.0]))
    assert x.grad.numpy().tolist() == [101, 1010]


@pytest.mark.cpu_only("mixes NumPy's arrays with tensors")
def test_sequences_of_arrays_and_lists_are_joined_too():
    joined = ops.concatenate([ndl.Tensor([1.0]), np.array([2.0]), [3.0]])
    assert joined.numpy().tolist() == [1, 2, 3]
    assert ops.concatenate(ndl.Tensor([[1.0, 2.0], [3.0, 4.0]])).numpy().tolist() == [1, 2, 3, 4]
    assert ops.stack((np.zeros(2), ndl.Tensor([1.0, 1.0]))).shape == (2, 2)


@pytest.mark.cpu_only("whether arrays share memory")
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.reshape(6),
        lambda x: x.transpose(),
        lambda x: x.permute((1, 0)),
        lambda x: ops.flip(x, 0),
        lambda x: x.broadcast_to((4, 2, 3)),
        lambda x: x.squeeze(),
        lambda x: x.expand_dims(1),
        lambda x: x[0],
        lambda x: x[:, 1:],
        lambda x: next(iter(ops.split(x, 1))),
    ],
)
def test_moving_elements_copies_none(fn):
    x = ndl.Tensor(np.arange(6.0).reshape(2, 3))
    assert np.shares_memory(fn(x).numpy(), x.numpy())


@pytest.mark.parametrize("axes", [0, (0, 1), [1], -1, np.int64(0)], ids=repr)
def test_axes_come_as_integers_or_sequences(axes):
    x = np.arange(6.0).reshape(2, 3)
    expected = x.sum(axis=tuple(axes) if isinstance(axes, list) else axes)
    assert np.array_equal(ops.summation(ndl.Tensor(x), axes).numpy(), expected)


# --------------------------------------------------------------------------------------------------------------- tuples


def test_a_tuple_is_indexed_from_both_ends_and_iterated():
    t = ops.make_tuple(ndl.Tensor([1.0]), ndl.Tensor([2.0, 3.0]))
    assert len(t) == 2
    assert [item.shape for item in t] == [(1,), (2,)]
    assert ops.tuple_get_item(t, -1).numpy().tolist() == [2, 3]
    assert ops.tuple_get_item(t, np.int64(0)).numpy().tolist() == [1]


def test_items_that_nothing_is_computed_from_get_zero_gradients():
    a, b = ndl.Tensor([1.0, 2.0]), ndl.Tensor([3.0])
    for create_graph in (True, False):
        ops.make_tuple(a, b)[0].backward(np.array([5.0, 6.0]), create_graph=create_graph)
        assert a.grad.numpy().tolist() == [5, 6]
        assert b.grad.numpy().tolist() == [0]


def test_fused_add_scalars_gives_both_sums():
    a = ndl.Tensor([1.0, 2.0])
    first, second = ops.fused_add_scalars(a, 10, np.float64(0.5))
    assert (first.numpy().tolist(), second.numpy().tolist()) == ([11, 12], [1.5, 2.5])
    (first * 3 + second * 5).backward(np.ones(2))
    assert a.grad.numpy().tolist() == [8, 8]
