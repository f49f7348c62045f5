"""Indexing: NumPy's rules for values, and gradients that scatter, adding up what is indexed twice."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_cases import Draw

import needle as ndl
from needle import ops
from needle.autograd import find_topo_sort


@settings(max_examples=60)
@given(data=st.data())
def test_any_index_takes_what_numpy_takes(data):
    d = Draw(data.draw)
    x = d.tensor(d.shape())
    index = d.index(x.shape)
    found, expected = ops.getitem(x, index), x.numpy()[index]
    assert found.shape == np.shape(expected)
    assert np.array_equal(found.numpy(), expected)
    assert type(found.numpy()) is np.ndarray


@settings(max_examples=60)
@given(data=st.data())
def test_the_gradient_of_any_index_adds_where_numpys_add_at_does(data):
    d = Draw(data.draw)
    x = d.tensor(d.shape())
    index = d.index(x.shape)
    y = x[index]
    g = d.array(y.shape)
    expected = np.zeros(x.shape)
    np.add.at(expected, index, g)
    # n numbers summed in any order are off by at most n·ε·Σ|g| (Higham 2002, §4.2), twice that from each other
    bound = 2 * g.size * np.finfo(float).eps * np.abs(g).sum()
    for create_graph in (True, False):
        y.backward(g, create_graph=create_graph, retain_graph=True)
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=0, atol=bound)


def test_the_gradient_is_one_scatter_whose_gradient_is_the_index_again():
    x, g = ndl.Tensor([1.0, 2.0, 3.0]), ndl.Tensor([1.0, 10.0, 100.0])
    x[[0, 0, 2]].backward(g)
    assert [type(n.op) for n in find_topo_sort([x.grad]) if n.op] == [ops.ScatterAdd]
    assert x.grad.numpy().tolist() == [11, 0, 100]
    again = ndl.grad(x.grad, g, np.array([1.0, 2.0, 3.0]))
    assert [type(n.op) for n in find_topo_sort([again]) if n.op] == []
    assert again.numpy().tolist() == [1, 1, 3]


X = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "index",
    [
        0,
        -1,
        np.int64(1),
        np.array(1),
        (0, 1, 2),
        slice(None),
        slice(None, None, -2),
        Ellipsis,
        None,
        (..., 0),
        (0, ..., None, slice(1, 3)),
        [1, 0, 1],
        ([0, 1], [2, 0]),
        ((0, 1), (2, 0)),
        [],
        [[0, 1], [1, 0]],
        (slice(None), [0, 2]),
        ([0, 1], slice(None), [0, 1]),
        (np.array([[0], [1]]), np.array([0, 2])),
        X > 5,
        X[:, 0, 0] >= 0,
        (slice(None), np.array([True, False, True])),
        (np.array([True, True]), [0, 2]),
        True,
        False,
        np.array([0, -1], dtype="int8"),
        np.array([0, 1], dtype="uint8"),
    ],
    ids=repr,
)
def test_each_kind_of_index_as_numpy_has_it(index):
    found = ndl.Tensor(X)[index]
    assert np.array_equal(found.numpy(), X[index])
    assert found.shape == X[index].shape


def test_tensors_are_indices():
    x = ndl.Tensor([1.0, 2.0, 3.0])
    assert x[ndl.Tensor([2, 0])].numpy().tolist() == [3, 1]
    assert x[x > 1].numpy().tolist() == [2, 3]
    assert x[ndl.Tensor(1)].item() == 2


def test_an_index_array_that_changes_later_changes_nothing():
    x, index = ndl.Tensor([1.0, 2.0]), np.array([0, 0])
    y = x[index]
    index[:] = 1
    y.backward(np.array([1.0, 10.0]))
    assert x.grad.numpy().tolist() == [11, 0]


def test_iterating_gives_the_rows():
    assert [row.numpy().tolist() for row in ndl.Tensor([[1.0, 2.0], [3.0, 4.0]])] == [[1, 2], [3, 4]]


def test_rows_of_an_empty_tensor_are_none():
    assert list(ndl.Tensor(np.zeros((0, 3)))) == []
