"""The fast way through NumPy arrays is held to the plain one, whatever the blocks; and what it may use."""

import blur_oracle as oracle
import numpy as np
import pytest
from shared import peak_memory

from needle.ops import blur_block, blur_numpy, blur_scan
from needle.ops.blur import EDGES, RADIUS_GRADS

pytestmark = pytest.mark.cpu_only("is how NumPy arrays are gone through")


def both(x, radius, g, edge="drop", radius_grad="exact", axis=0):
    """(y, Wᵀg, Dᵀg) the fast way and the plain way."""
    fast = blur_numpy.spread(x, radius, axis, edge), *blur_numpy.gather(g, radius, axis, edge, radius_grad)
    plain = (
        blur_scan.spread(x, None, radius, axis, edge, radius_grad),
        *blur_scan.gather(g, radius, axis, edge, radius_grad),
    )
    return fast, plain


def problem(*shape, lowest=-1, highest=20):
    x, g = np.random.randn(2, *shape)
    whole = np.random.randint(np.ceil(lowest), highest, shape)
    return x, np.where(np.random.rand(*shape) < 0.3, whole, np.random.uniform(lowest, highest, shape)), g


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("radius_grad", RADIUS_GRADS)
@pytest.mark.parametrize("lowest", [-1, 1])
def test_the_fast_way_and_the_plain_way_agree(edge, radius_grad, lowest):
    for shape in ((1, 1), (2, 3), (31, 8), (40, 1001)):
        x, radius, g = problem(*shape, lowest=lowest)
        for fast, plain in zip(*both(x, radius, g, edge, radius_grad)):
            np.testing.assert_allclose(fast, plain, rtol=0, atol=2e-13)
        single = [a.astype("float32") for a in (x, radius, g)]
        exact = [a.astype("float64") for a in single]
        for fast, plain in zip(both(*single, edge, radius_grad)[0], both(*exact, edge, radius_grad)[1]):
            np.testing.assert_allclose(fast, plain, rtol=2e-7, atol=5e-7)


@pytest.mark.parametrize("edge", EDGES)
def test_the_plain_tangent_is_the_dense_one(edge):
    u, radius, v = problem(12, 5)
    w, d, rho = oracle.matrices(radius, edge)
    expected = np.einsum("tip,pt->it", w, u) + np.einsum("tip,pt->it", d, v)
    np.testing.assert_allclose(blur_scan.spread(u, v, radius, 0, edge), expected, rtol=0, atol=1e-13)
    np.testing.assert_allclose(blur_scan.curvature(radius, 0, edge), rho, rtol=1e-14)


@pytest.mark.parametrize("block, fewest", [(1, 1), (60, 1), (60, 3), (200, 4)])
def test_a_column_does_not_depend_on_the_block_that_it_is_in(monkeypatch, block, fewest):
    x, radius, g = problem(3, 20, 7)
    whole = both(x, radius, g, axis=1)[0]
    monkeypatch.setattr(blur_block, "_BLOCK", block)
    monkeypatch.setattr(blur_block, "_FEWEST", fewest)
    for one, other in zip(whole, both(x, radius, g, axis=1)[0]):
        np.testing.assert_array_equal(one, other)


def test_blocks_cover_every_column_once():
    for shape in ((5, 1, 1), (5, 1, 40_001), (5, 300, 7), (5, 3, 9999), (50_000, 1, 33), (50_000, 33, 1), (7, 5000, 2)):
        seen = np.zeros(shape[1:], int)
        for cut in blur_block.cuts(shape):
            seen[cut[1:]] += 1
        assert (seen == 1).all()


def test_axes_too_long_for_exact_float32_counts_are_counted_in_float64(monkeypatch):
    x, radius, g = (a.astype("float32") for a in problem(40, 6))
    expected = both(*(a.astype("float64") for a in (x, radius, g)))[1]
    for limit in (30, 100):  # an axis longer than float32 counts to; a block with more elements than that
        monkeypatch.setattr(blur_block, "EXACT", limit)
        monkeypatch.setattr(blur_numpy, "EXACT", limit)
        for fast, plain in zip(both(x, radius, g)[0], expected):
            np.testing.assert_allclose(fast, plain, rtol=2e-7, atol=5e-7)


def test_on_long_axes_float32_cotangents_are_centred_too(monkeypatch):
    x, radius, g = (a.astype("float32") for a in problem(40, 6))
    plain = both(*(a.astype("float64") for a in (x, radius, g)))[1]
    monkeypatch.setattr(blur_numpy, "_LONG", 20)
    for fast, exact in zip(both(x, radius, g)[0], plain):
        np.testing.assert_allclose(fast, exact, rtol=2e-7, atol=5e-7)


def test_inputs_are_left_alone_and_results_share_no_memory():
    arrays = problem(9, 4)
    copies = [a.copy() for a in arrays]
    y, value, slope = both(*arrays)[0]
    for array, copy in zip(arrays, copies):
        np.testing.assert_array_equal(array, copy)
    blur_numpy.spread(arrays[0], np.zeros((9, 4)), 0, "drop")[...] = 7
    np.testing.assert_array_equal(arrays[0], copies[0])
    assert not any(np.shares_memory(a, b) for a in (y, value, slope) for b in arrays)


@pytest.mark.parametrize("size, columns", [(513, 690), (257, 1375), (16384, 22)])
@pytest.mark.parametrize("edge", EDGES)
def test_peak_memory_is_under_64_megabytes_whatever_the_radii(size, columns, edge):
    x, g = np.random.randn(2, size, columns).astype("float32")
    radius = np.random.uniform(0.5, 3 * size, (size, columns)).astype("float32")

    def there_and_back():
        y = blur_numpy.spread(x, radius, 0, edge)
        value, slope = blur_numpy.gather(g, radius, 0, edge, "exact")
        assert y.shape == value.shape == slope.shape

    assert peak_memory(there_and_back) + x.nbytes + g.nbytes + radius.nbytes < 64e6
