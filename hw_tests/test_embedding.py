"""Rows of a table, picked by ids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import needle as ndl
from needle.gradcheck import gradcheck, gradgradcheck


@given(st.lists(st.integers(0, 4), max_size=12), st.integers(0, 3))
def test_picking_and_adding_rows_are_adjoint(ids, width):
    rng = np.random.default_rng(0)
    ids = np.array(ids, dtype=np.int64)
    table, rows = rng.standard_normal((5, width)), rng.standard_normal((len(ids), width))
    added = ndl.ops.AddRows(ids, 5)(rows)
    expected = np.zeros((5, width))
    for i, row in zip(ids, rows):
        expected[i] += row
    np.testing.assert_allclose(added, expected, atol=1e-14)
    np.testing.assert_allclose((added * table).sum(), (rows * table[ids]).sum(), atol=1e-12)


def test_an_embedding_is_a_one_hot_product():
    table, ids = np.random.randn(6, 4), np.random.randint(6, size=(3, 2))
    np.testing.assert_array_equal(ndl.embedding(ndl.Tensor(table), ids).numpy(), np.eye(6)[ids] @ table)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "int64"])
def test_ids_may_be_whole_numbers_of_any_dtype(dtype):
    table, ids = ndl.Tensor(np.random.randn(3, 2)), np.array([[2, 0], [1, 1]])
    picked = ndl.embedding(table, ndl.Tensor(ids.astype(dtype), requires_grad=False))
    np.testing.assert_array_equal(picked.numpy(), table.numpy()[ids])


def test_gradients_add_up_where_an_id_repeats():
    ids = np.array([[1, 3], [1, 1]])
    table = np.random.randn(4, 3)
    assert gradcheck(lambda w: ndl.embedding(w, ids), table)
    assert gradgradcheck(lambda w: ndl.embedding(w, ids) ** 2, table)
    w = ndl.Tensor(table)
    ndl.embedding(w, ids).sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [[0] * 3, [3] * 3, [0] * 3, [1] * 3])


def test_changing_the_ids_later_does_not_change_the_gradient():
    ids, table = np.array([0, 1]), ndl.Tensor(np.ones((3, 1)))
    picked = ndl.embedding(table, ids)
    ids[:] = 2
    picked.sum().backward()
    np.testing.assert_array_equal(table.grad.numpy(), [[1], [1], [0]])


@pytest.mark.parametrize(
    ("ids", "error", "text"),
    [
        ([0, 3], ValueError, "embedding: ids from 0 to 3, but the table has rows 0 to 2"),
        ([-1, 2], ValueError, "embedding: ids from -1 to 2, but the table has rows 0 to 2"),
        ([0.0, np.nan], ValueError, "embedding: ids from nan to nan"),
        ([0.0, 1.5], ValueError, "embedding: ids are whole numbers, got 1.5"),
        ([True, False], TypeError, "embedding: ids are integers, got dtype bool"),
        (["a"], TypeError, "embedding: ids are integers, got dtype <U1"),
    ],
)
def test_ids_that_name_no_row_are_an_error(ids, error, text):
    with pytest.raises(error, match=text):
        ndl.embedding(ndl.Tensor(np.ones((3, 2))), ids)


def test_a_table_has_two_axes():
    with pytest.raises(ValueError, match=r"embedding: a table of shape \(n, d\) is needed, got \(3,\)"):
        ndl.embedding(ndl.Tensor([1.0, 2.0, 3.0]), [0])
