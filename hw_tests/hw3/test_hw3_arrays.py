"""Homework 3, arrays: what is made, strided views, reductions and products, each as NumPy has it."""

import numpy as np
import pytest

import needle as ndl
from needle import backend_ndarray as nd

A = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
B = A[::-1] / 8 + 1


def numpy(array):
    """Give an array of any device as NumPy's."""
    return ndl.Tensor(array, requires_grad=False).numpy()


class Compute(ndl.TensorOp):
    """Runs a function on arrays, wherever they are, as the compute of an op is run."""

    def __init__(self, f):
        self.f = f

    def compute(self, *arrays):
        return self.f(*arrays)


def computed(f, *values):
    """Give what `f` makes of arrays of these values, as NumPy's."""
    return Compute(f)(*[ndl.Tensor(nd.array(v), requires_grad=False) for v in values]).numpy()


# -------------------------------------------------------------------------------------------------------------- making


def test_an_array_is_a_copy_and_float32_unless_another_dtype_is_asked_for():
    source = np.array([[1.0, 2.0], [3.0, 4.0]])
    array = nd.array(source)
    source[...] = 0
    assert array.shape == (2, 2) and numpy(array).dtype == np.float32
    np.testing.assert_array_equal(numpy(array), [[1, 2], [3, 4]])
    assert numpy(nd.array([1, 2], dtype="float64")).dtype == np.float64


def test_full_repeats_its_value_and_empty_has_a_shape():
    np.testing.assert_array_equal(numpy(nd.full((2, 3), 1.5)), np.full((2, 3), 1.5))
    assert nd.empty((4, 5)).shape == (4, 5) and numpy(nd.empty((4, 5))).dtype == np.float32


# --------------------------------------------------------------------------------------------------------------- views

INDICES = {
    "a row": np.s_[1],
    "an element": np.s_[1, 2, 3],
    "the last": np.s_[-1, :, -2],
    "a stretch": np.s_[:, 1:3],
    "every second": np.s_[:, :, ::2],
    "a column": np.s_[:, 1, 1:],
    "a single one that stays an axis": np.s_[0:1, 2:3],
    "the last axes": np.s_[..., 1],
    "nothing": np.s_[:, 2:2],
}


@pytest.mark.parametrize("name", INDICES)
def test_an_index_picks_what_it_does_in_numpy(name):
    np.testing.assert_array_equal(numpy(nd.array(A)[INDICES[name]]), A[INDICES[name]])
    np.testing.assert_array_equal(ndl.Tensor(A)[INDICES[name]].numpy(), A[INDICES[name]])


@pytest.mark.parametrize("name", INDICES)
def test_an_assignment_changes_what_its_index_picks(name):
    array, expected = nd.array(A), A.copy()
    array[INDICES[name]] = expected[INDICES[name]] = -1
    np.testing.assert_array_equal(numpy(array), expected)


def test_a_slice_is_a_view_so_that_writing_into_it_changes_the_array():
    array, expected = nd.array(A), A.copy()
    for a in (array, expected):
        a[:, 1:, ::2][1:, :1] = 100
    np.testing.assert_array_equal(numpy(array), expected)


VIEWS = {
    "the last two axes swapped": (lambda x: ndl.transpose(x), A.swapaxes(1, 2)),
    "the outer axes swapped": (lambda x: ndl.transpose(x, (0, 2)), A.swapaxes(0, 2)),
    "all axes permuted": (lambda x: ndl.permute(x, (2, 0, 1)), A.transpose(2, 0, 1)),
    "one more axis in front": (lambda x: x.broadcast_to((5, 2, 3, 4)), np.broadcast_to(A, (5, 2, 3, 4))),
    "a slice that is repeated": (lambda x: x[:, 1:2].broadcast_to((2, 6, 4)), np.broadcast_to(A[:, 1:2], (2, 6, 4))),
    "a slice of a transpose": (lambda x: ndl.transpose(x, (0, 2))[1:, ::2], A.swapaxes(0, 2)[1:, ::2]),
    "a transpose of a slice": (lambda x: ndl.transpose(x[:, 1:, ::3]), A[:, 1:, ::3].swapaxes(1, 2)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shows_the_elements_where_numpy_has_them(name):
    view, expected = VIEWS[name]
    np.testing.assert_array_equal(view(ndl.Tensor(A)).numpy(), expected)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_an_operand_like_any_array(name):
    """What computes on the memory as it lies, without the strides, fails here."""
    view, a = VIEWS[name]
    x = view(ndl.Tensor(A))
    other = (np.arange(a.size, dtype=np.float32) / a.size).reshape(a.shape)
    np.testing.assert_allclose((x + ndl.Tensor(other)).numpy(), a + other, rtol=1e-6)
    np.testing.assert_allclose((x * 2).numpy(), a * 2, rtol=1e-6)
    np.testing.assert_allclose(ndl.tanh(x).numpy(), np.tanh(a), rtol=1e-5)
    np.testing.assert_allclose(x.sum(axes=(0, 1)).numpy(), a.sum(axis=(0, 1)), rtol=1e-5)
    np.testing.assert_allclose((x @ ndl.transpose(x)).numpy(), a @ a.swapaxes(-1, -2), rtol=1e-5)
    np.testing.assert_array_equal(x.reshape((a.size,)).numpy(), a.reshape(-1))


# ---------------------------------------------------------------------------------------------------------- arithmetic

ARITHMETIC = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "greater or equal": lambda a, b: a >= b * 4,
    "equal": lambda a, b: a == b,
    "a number": lambda a, b: (a + 1.5) * -2 / 4,
    "power": lambda a, b: b**3,
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_operators_go_element_by_element(name):
    f = ARITHMETIC[name]
    np.testing.assert_allclose(computed(f, A, B), f(A, B), rtol=1e-6)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize("name", ["sum", "max"])
def test_a_reduction_takes_one_axis_or_all(name, axis, keepdims):
    values = np.random.permutation(24).astype(np.float32).reshape(2, 3, 4)
    reduce = lambda a: getattr(a, name)(axis=axis, keepdims=keepdims)  # noqa: E731
    np.testing.assert_allclose(computed(reduce, values), reduce(values), rtol=1e-6)


# Powers of two, and what does not divide into tiles of them.
SIZES = [(8, 8, 8), (1, 1, 1), (1, 9, 5), (7, 1, 3), (16, 17, 15), (32, 32, 32), (72, 73, 74), (64, 128, 2)]


@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_a_product_of_matrices_has_any_sizes(m, k, n):
    a, b = np.random.rand(m, k).astype(np.float32), np.random.rand(k, n).astype(np.float32)
    # The sum of k rounded products of numbers in [0, 1) is off by at most k·ε of its value.
    np.testing.assert_allclose(computed(lambda a, b: a @ b, a, b), a.astype("float64") @ b, rtol=(k + 1) * 1.2e-7)


def test_matrices_whose_inner_sizes_differ_have_no_product():
    with pytest.raises(ValueError):
        ndl.Tensor(nd.array(A[0])) @ ndl.Tensor(nd.array(A[1]))
