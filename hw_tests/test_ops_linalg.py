"""Products: matrices, vectors and batches in every combination, and Einstein summation, against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_cases import _EINSUMS, CASES, Draw
from shared import ops_in

import needle as ndl
from needle import ops

sizes = st.integers(0, 3)
batches = st.lists(st.integers(0, 2), max_size=2).map(tuple)


@st.composite
def factors(draw):
    """Shapes that multiply: vectors, matrices, batches that broadcast."""
    n, k, m = draw(sizes), draw(sizes), draw(sizes)
    batch = draw(batches)
    left, right = ((*[1 if draw(st.booleans()) else b for b in batch[draw(sizes) :]],) for _ in range(2))
    return draw(st.sampled_from([(k,), (*left, n, k)])), draw(st.sampled_from([(k,), (*right, k, m)]))


@given(factors(), st.sampled_from("CF"))
def test_products_of_any_ranks_give_what_numpy_gives(shapes, order):
    a, b = (np.asarray(np.random.randn(*shape), order=order) for shape in shapes)
    expected = np.matmul(a, b)
    x, y = ndl.Tensor(a), ndl.Tensor(b)
    for found in (x @ y, x @ b, a @ y, x.matmul(y)):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13, atol=1e-14)


@given(factors())
def test_gradients_of_products_are_products_summed_over_broadcast_batches(shapes):
    """By the definition, written with einsum over the common batch."""
    a, b = (np.random.randn(*shape) for shape in shapes)
    x, y = ndl.Tensor(a), ndl.Tensor(b)
    z = x @ y
    g = np.random.standard_normal(z.shape)
    z.backward(g)
    left = a[None, :] if a.ndim == 1 else a
    right = b[:, None] if b.ndim == 1 else b
    full = np.reshape(g, np.matmul(left, right).shape)
    batch = full.shape[:-2]
    left, right = (np.broadcast_to(m, batch + m.shape[-2:]) for m in (left, right))
    to_left = np.einsum("...nm,...km->...nk", full, right)
    to_right = np.einsum("...nk,...nm->...km", left, full)
    for tensor, grad in ((x, to_left), (y, to_right)):
        shape = {1: (1, *tensor.shape) if tensor is x else (*tensor.shape, 1)}.get(tensor.ndim, tensor.shape)
        while grad.ndim > len(shape):
            grad = grad.sum(0)
        axes = tuple(i for i, size in enumerate(shape) if size == 1 and grad.shape[i] != 1)
        np.testing.assert_allclose(tensor.grad.numpy(), grad.sum(axes).reshape(tensor.shape), rtol=1e-12, atol=1e-13)


def test_a_batch_times_one_matrix_is_one_product():
    calls = []

    class Counting(np.ndarray):
        def __matmul__(self, other):
            calls.append((self.shape, other.shape))
            return np.asarray(self) @ np.asarray(other)

    x = np.random.randn(2, 5, 3)
    result = ops.MatMul().compute(x.view(Counting), np.random.randn(3, 4).view(Counting))
    assert calls == [((10, 3), (3, 4))]
    assert result.shape == (2, 5, 4)


def test_the_gradient_to_a_shared_matrix_needs_no_sum_over_the_batch():
    x, w = ndl.Tensor(np.random.randn(2, 5, 3)), ndl.Tensor(np.random.randn(3, 4))
    (x @ w).backward(ndl.Tensor(np.random.randn(2, 5, 4)))
    assert ops.SumTo not in ops_in(w.grad)
    assert ops_in(w.grad).count(ops.MatMul) == 1


# -------------------------------------------------------------------------------------------------------------- einsum


@pytest.mark.parametrize("subscripts", _EINSUMS)
def test_the_gradient_case_draws_every_notation(subscripts):
    groups = subscripts.split("->")[0].split(",")
    arrays = [np.random.randn(*[3] * len(g.replace("...", "z"))) for g in groups]
    found = ops.einsum(subscripts, *map(ndl.Tensor, arrays))
    np.testing.assert_allclose(found.numpy(), np.einsum(subscripts, *arrays), rtol=1e-13, atol=1e-14)


@settings(max_examples=60)
@given(data=st.data())
def test_einsum_of_any_sizes_gives_what_numpy_gives(data):
    fn, inputs = CASES[ops.EinSum](Draw(data.draw))
    subscripts = fn.__closure__[0].cell_contents
    expected = np.einsum(subscripts, *[x.numpy() for x in inputs])
    np.testing.assert_allclose(fn(*inputs).numpy(), expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("subscripts", ["ij, jk", "ij,jk -> ik", " i j , j k->i k"])
def test_blanks_do_not_matter(subscripts):
    a, b = np.random.randn(2, 3), np.random.randn(3, 4)
    found = ops.einsum(subscripts, ndl.Tensor(a), ndl.Tensor(b))
    np.testing.assert_allclose(found.numpy(), a @ b, rtol=1e-14)


def test_the_axes_of_an_ellipsis_broadcast_by_explicit_nodes():
    a, b = ndl.Tensor(np.random.randn(4, 1, 3)), ndl.Tensor(np.random.randn(2, 3))
    y = ops.einsum("...i,...i->...", a, b)
    assert y.shape == (4, 2)
    np.testing.assert_allclose(y.numpy(), (a.numpy() * b.numpy()).sum(-1), rtol=1e-14)
    assert ops_in(y) == [ops.BroadcastTo, ops.EinSum]
    y.backward(np.ones((4, 2)))
    assert (a.grad.shape, b.grad.shape) == (a.shape, b.shape)


def test_an_operand_used_twice_gets_both_gradients():
    x = ndl.Tensor(np.random.randn(3))
    ops.einsum("i,i->", x, x).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy(), rtol=1e-15)


def test_the_gradient_of_a_trace_is_the_identity():
    x = ndl.Tensor(np.random.randn(3, 3))
    ops.einsum("ii", x).backward()
    assert np.array_equal(x.grad.numpy(), np.eye(3))
