"""The adaptive blur: values worked out by hand, the dense definition as oracle, and everything around it."""

import blur_oracle as oracle
import numpy as np
import pytest

import needle as ndl
from needle.ops.blur import EDGES, RADIUS_GRADS, adaptive_blur


def run(x, radius, g, create_graph=False, **how):
    """y, dx and dm, as NumPy arrays."""
    x, radius = ndl.Tensor(x), ndl.Tensor(radius)
    y = adaptive_blur(x, radius, **how)
    y.backward(ndl.Tensor(g, dtype=y.dtype), create_graph=create_graph)
    return y.numpy(), x.grad.numpy(), radius.grad.numpy()


def assert_same(ours, reference):
    """To the last bit on the CPU; scattering on a GPU adds in no fixed order."""
    tolerance = 8 * np.finfo(ours.dtype).eps * np.abs(reference).max(initial=0)
    np.testing.assert_allclose(ours, reference, rtol=0, atol=0 if ndl.default_device() == ndl.cpu() else tolerance)


# ---------------------------------------------------------------------------------------------------- values by hand

POWERS = [1, 2, 4, 8, 16]
SEED, RETURN, RENORM = {"radius_grad": "seed"}, {"edge": "return"}, {"edge": "renorm"}
BY_HAND = [
    # x with one source, its radius, the cotangent, how; then y, and dx and dm at the source
    ([0, 0, 1, 0, 0], 1, [0, 1, 0, 0, 0], {}, [0, 0, 1, 0, 0], 0, 1),
    ([0, 0, 1, 0, 0], 1, [0, 0, 1, 0, 0], {}, [0, 0, 1, 0, 0], 1, -2),
    ([0, 0, 1, 0, 0], 1, POWERS, {}, [0, 0, 1, 0, 0], 4, 2),
    ([0, 0, 1, 0, 0], 1, POWERS, SEED, [0, 0, 1, 0, 0], 4, -4),
    ([0, 0, 14, 0, 0], 5 / 4, POWERS, {}, [0, 2, 10, 2, 0], 30 / 7, 64 / 7),
    ([0, 0, 14, 0, 0], 5 / 4, POWERS, SEED, [0, 2, 10, 2, 0], 30 / 7, 184 / 7),
    ([0, 0, 5, 0, 0], 3 / 2, POWERS, {}, [0, 1, 3, 1, 0], 22 / 5, 8 / 5),
    ([0, 0, 5, 0, 0], 3 / 2, POWERS, SEED, [0, 1, 3, 1, 0], 22 / 5, 8 / 5),
    ([0, 0, 4, 0, 0], 2, POWERS, {}, [0, 1, 2, 1, 0], 9 / 2, 17 / 2),
    ([0, 0, 4, 0, 0], 2, [1, 1, 1, 1, 1], {}, [0, 1, 2, 1, 0], 1, 0),
    ([0, 0, 13, 0, 0], 5 / 2, [1, 0, 0, 0, 1], {}, [1, 3, 5, 3, 1], 2 / 13, 32 / 13),
    ([4, 0, 0], 2, [1, 1, 1], {}, [2, 1, 0], 3 / 4, -3 / 4),
    ([4, 0, 0], 2, [1, 1, 1], RETURN, [3, 1, 0], 1, 0),
    ([4, 0, 0], 2, [1, 1, 1], RENORM, [8 / 3, 4 / 3, 0], 1, 0),
    ([0, 0, 4], 2, [1, 2, 4], {}, [0, 1, 2], 5 / 2, -11 / 2),
    ([9, 0, 0], 3, [1, 1, 1], {}, [3, 2, 1], 2 / 3, -5 / 3),
    ([6], 3, [1], {}, [2], 1 / 3, -8 / 9),
    ([6], 3, [1], RETURN, [6], 1, 0),
    ([6], 3, [1], RENORM, [6], 1, 0),
    ([0, 0, 0, 7, 0, 0, 0], 2.7, [1] * 7, {}, [0, 49 / 75, 119 / 75, 63 / 25, 119 / 75, 49 / 75, 0], 1, 0),
    ([0, 0, 0, 7, 0, 0, 0], 2.7, range(7), {}, [0, 49 / 75, 119 / 75, 63 / 25, 119 / 75, 49 / 75, 0], 3, 0),
]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("x, m, g, how, y, dx, dm", BY_HAND)
def test_a_single_source_gives_what_was_worked_out_by_hand(x, m, g, how, y, dx, dm, create_graph):
    x, g = np.array(x, float), np.array(g, float)
    source = int(np.flatnonzero(x)[0])
    radius = np.where(x != 0, float(m), 0.0)
    result, to_x, to_radius = run(x, radius, g, create_graph, **how)
    np.testing.assert_allclose(result, y, rtol=0, atol=1e-14)
    np.testing.assert_allclose([to_x[source], to_radius[source]], [dx, dm], rtol=1e-14, atol=1e-14)
    np.testing.assert_array_equal(np.delete(to_x, source), np.delete(g, source))
    np.testing.assert_array_equal(np.delete(to_radius, source), 0)


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("radius_grad", RADIUS_GRADS)
@pytest.mark.parametrize("radius", [[0.0, -1.0, -7.0], [0.5, 0.25, 0.9], [-np.inf, 1e-40, 1e-300]])
def test_below_radius_1_nothing_changes_to_the_last_bit(radius, edge, radius_grad):
    x, g = np.array([1.0, 2.0, 3.0]), np.random.randn(3)
    y, dx, dm = run(x, radius, g, edge=edge, radius_grad=radius_grad)
    assert (y.tobytes(), dx.tobytes(), dm.tobytes()) == (x.tobytes(), g.tobytes(), np.zeros(3).tobytes())


def test_each_source_counts_with_its_own_radius():
    """Were it the radius of the receiving point, the second one would hear nothing of the first."""
    y, _, _ = run([4.0, 0.0, 0.0, 1.0], [2.0, 1.0, 1.0, 1.0], np.ones(4))
    np.testing.assert_array_equal(y, [2, 1, 0, 1])


@pytest.mark.parametrize("edge, expected", [("drop", [7 / 4, 3, 7 / 4]), ("renorm", [7 / 3, 3, 7 / 3])])
def test_a_source_of_value_zero_has_a_gradient_but_its_radius_has_none(edge, expected):
    y, dx, dm = run(np.zeros(3), np.full(3, 2.0), [1.0, 5.0, 1.0], edge=edge)
    np.testing.assert_array_equal(y, 0)
    np.testing.assert_array_equal(dm, 0)
    np.testing.assert_allclose(dx, expected, rtol=1e-15)


# -------------------------------------------------------------------------------------------- against the definition

SIZE, COLUMNS = 23, 7
WHOLE = np.random.default_rng(1).integers(1, SIZE + 4, (SIZE, COLUMNS)).astype(float)
REGIMES = {
    "below 1": np.random.default_rng(2).uniform(-3, 1, (SIZE, COLUMNS)),
    "integers": WHOLE,
    "just below integers": np.nextafter(WHOLE, 0),
    "just above integers": np.nextafter(WHOLE, np.inf),
    "half-integers": WHOLE + 0.5,
    "anywhere on the grid": np.random.default_rng(3).uniform(1, SIZE, (SIZE, COLUMNS)),
    "far over the grid": np.random.default_rng(4).uniform(SIZE, 50 * SIZE, (SIZE, COLUMNS)),
    "mixed": np.random.default_rng(5).choice([0.3, 1, 1.5, 2, 2.7, 7, 19.9, 23, 400], (SIZE, COLUMNS)),
}


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("radius_grad", RADIUS_GRADS)
def test_values_and_gradients_are_those_of_the_dense_definition(regime, edge, radius_grad):
    radius = REGIMES[regime]
    x, g = np.random.randn(2, SIZE, COLUMNS)
    y, dx, dm = run(x, radius, g, edge=edge, radius_grad=radius_grad)
    to_x, to_radius = oracle.gradients(x, radius, g, edge, radius_grad)
    np.testing.assert_allclose(y, oracle.blur(x, radius, edge), rtol=0, atol=2e-14)
    np.testing.assert_allclose(dx, to_x, rtol=0, atol=2e-14)
    np.testing.assert_allclose(dm, to_radius, rtol=0, atol=5e-13)


@pytest.mark.parametrize("edge", ["return", "renorm"])
def test_these_edges_conserve_the_sum_of_every_column(edge):
    x = np.random.randn(SIZE, COLUMNS)
    for radius in REGIMES.values():
        y = adaptive_blur(x, radius, edge=edge)
        np.testing.assert_allclose(y.sum(axis=0), x.sum(axis=0), rtol=0, atol=1e-12)
        np.testing.assert_allclose(run(x, radius, np.ones_like(x), edge=edge)[2], 0, atol=1e-13)


def relative_error(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


@pytest.mark.parametrize("size, widest", [(513, 4), (513, 120), (513, 1500), (16384, 3), (16384, 900)])
def test_float32_is_accurate_to_1e_6_also_where_the_cotangent_has_a_mean(size, widest):
    radius = np.random.uniform(0.9, widest, size).astype("float32")
    x, g = np.random.randn(2, size).astype("float32")
    g = g / 4 + 1
    results = run(x[:, None], radius[:, None], g[:, None])
    for ours, exact in zip(results, oracle.long_column(*(a.astype(float) for a in (x, radius, g)))):
        assert ours.dtype == "float32"
        assert relative_error(ours[:, 0], exact) < 1e-6


def test_quiet_places_stay_quiet_beside_loud_ones():
    """Running sums in float32 would leave the loud source's rounding errors, about 0.06, all the way down."""
    x = np.zeros((513, 1), "float32")
    x[20], x[400] = 1e6, 1e-3
    radius = np.full((513, 1), 7.3, "float32")
    y, _, _ = run(x, radius, np.ones_like(x))
    near = slice(400 - 7, 400 + 8)
    np.testing.assert_allclose(y[near], oracle.blur(x, radius.astype(float))[near], rtol=1e-5)


# ------------------------------------------------------------------------------------------------- extreme radii, NaN


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("m", [np.inf, 3e38, 2.0**31, 1e20, 1e18, 1e-40, -np.inf])
def test_no_radius_is_too_extreme_and_other_columns_do_not_notice(m, edge, dtype):
    x, g = np.random.randn(2, 9, 4).astype(dtype)
    radius = np.random.uniform(1, 12, (9, 4)).astype(dtype)
    before = run(x, radius, g, edge=edge)
    radius[[0, 4, 8], 1] = m
    after = run(x, radius, g, edge=edge)
    for a, b in zip(before, after):
        assert np.isfinite(b).all()
        assert_same(np.delete(a, 1, axis=1), np.delete(b, 1, axis=1))


def test_a_huge_radius_spreads_a_value_evenly_and_thinly():
    y = adaptive_blur(np.array([0.0, 6.0, 0.0]), np.array([0.0, 1e6, 0.0]))
    np.testing.assert_allclose(y, 6e-6, rtol=2e-6)
    y = adaptive_blur(np.array([0.0, 6.0, 0.0]), np.array([0.0, np.inf, 0.0]), edge="renorm")
    np.testing.assert_allclose(y, 2, rtol=1e-12)


@pytest.mark.cpu_only("a GPU is not waited for to look for NaN")
def test_a_radius_that_is_nan_is_an_error_that_says_where():
    radius = np.ones((4, 3))
    radius[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"AdaptiveBlur: the radius is NaN at \(2, 1\)"):
        adaptive_blur(ndl.Tensor(np.ones((4, 3))), ndl.Tensor(radius))


def test_infinity_below_radius_1_stays_where_it_is():
    x = np.array([[1.0, 1.0], [np.inf, 1.0], [np.nan, 1.0], [1.0, 1.0]])
    radius = np.array([[2.0, 2.0], [0.5, 2.0], [0.0, 2.0], [1.0, 2.0]])
    y = adaptive_blur(x, radius)
    np.testing.assert_allclose(y[[0, 3], 0], [0.5, 1.0], atol=1e-15)
    assert y[1, 0] == np.inf and np.isnan(y[2, 0])


# ------------------------------------------------------------------------------- axes, views, broadcasting, dtypes


@pytest.mark.parametrize("axis", [-1, 1])
def test_another_axis_is_the_same_on_the_transpose(axis):
    x, radius, g = np.random.randn(8, 13), np.random.uniform(0, 9, (8, 13)), np.random.randn(8, 13)
    for ours, reference in zip(run(x, radius, g, axis=axis), run(x.T, radius.T, g.T)):
        assert_same(ours, reference.T)


def test_batch_axes_before_and_behind_are_blurred_apart():
    x, g = np.random.randn(2, 3, 2, 9, 4)
    radius = np.random.uniform(0, 9, x.shape)
    ours = run(x, radius, g, axis=2)
    for i in np.ndindex(3, 2):
        for whole, part in zip(ours, run(x[i], radius[i], g[i])):
            assert_same(whole[i], part)


def test_views_that_are_not_contiguous_are_read_as_they_are():
    x, radius, g = (np.random.uniform(1, 9, (18, 20))[::-2, 3::4] for _ in range(3))
    for ours, reference in zip(run(x, radius, g), run(x.copy(), radius.copy(), g.copy())):
        assert_same(ours, reference)
    view = np.random.randn(5, 9, 4).transpose(2, 1, 0)
    assert not view.flags.c_contiguous
    assert_same(adaptive_blur(view, 2.5, axis=1), adaptive_blur(view.copy(), 2.5, axis=1))


def test_two_forwards_before_either_backward_do_not_disturb_each_other():
    first, second = ([np.random.uniform(1, 9, (9, 6)) for _ in range(3)] for _ in range(2))
    expected = [run(*first), run(*second)]
    tensors = [[ndl.Tensor(a) for a in arrays[:2]] for arrays in (first, second)]
    results = [adaptive_blur(*pair) for pair in tensors]
    for (x, radius), y, (_, _, g), reference in zip(tensors, results, (first, second), expected):
        y.backward(ndl.Tensor(g), create_graph=False)
        for ours, alone in zip((y, x.grad, radius.grad), reference):
            assert_same(ours.numpy(), alone)


def test_x_and_radius_broadcast_and_get_gradients_of_their_own_shapes():
    x, radius, g = np.random.randn(9, 1), np.random.uniform(1, 5, (2, 1, 4)), np.random.randn(2, 9, 4)
    y, dx, dm = run(x, radius, g, axis=1)
    full = [np.broadcast_to(a, g.shape) for a in (x, radius)]
    reference, to_x, to_radius = run(*full, g, axis=1)
    assert_same(y, reference)
    np.testing.assert_allclose(dx, to_x.sum(axis=(0, 2))[:, None], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(dm, to_radius.sum(axis=1, keepdims=True), rtol=1e-13, atol=1e-13)


def test_a_number_as_radius_is_the_same_everywhere_and_widens_nothing():
    x = ndl.Tensor(np.random.randn(9, 2).astype("float32"))
    for number in (2.5, np.float64(2.5), np.array(2.5)):
        y = adaptive_blur(x, number)
        assert y.dtype == "float32"
        np.testing.assert_array_equal(y.numpy(), adaptive_blur(x, ndl.Tensor(np.full((9, 2), 2.5, "float32"))).numpy())


@pytest.mark.parametrize("kinds", [("float32", "float64"), ("float64", "float32"), ("float16", "float32")])
def test_float_dtypes_promote_and_gradients_have_their_own(kinds):
    x, radius = np.random.randn(9, 2).astype(kinds[0]), np.random.uniform(1, 5, (9, 2)).astype(kinds[1])
    g = np.random.randn(9, 2).astype(np.promote_types(*kinds))
    y, dx, dm = run(x, radius, g)
    assert (y.dtype, dx.dtype, dm.dtype) == (g.dtype, *kinds)
    exact = oracle.gradients(*(a.astype(float) for a in (x, radius, g)))
    for ours, reference in zip((y, dx, dm), (oracle.blur(x, radius), *exact)):
        tolerance = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-13}[str(ours.dtype)]
        np.testing.assert_allclose(ours, reference, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (3, 0, 4)])
def test_nothing_blurs_to_nothing(shape):
    for result in run(np.ones(shape), np.full(shape, 2.0), np.ones(shape)):
        assert result.shape == shape


def test_arrays_give_an_array_and_nothing_is_recorded():
    assert isinstance(adaptive_blur(np.ones(3), np.ones(3)), np.ndarray)
    assert adaptive_blur(ndl.Tensor([1.0], requires_grad=False), 1.0).is_leaf()


# ------------------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        (([1, 2], [1.0, 1.0]), TypeError, "AdaptiveBlur: x has dtype int64: a float dtype is needed"),
        (([1.0, 2.0], [1, 1]), TypeError, "AdaptiveBlur: radius has dtype int64: a float dtype is needed"),
        (([1.0, 2.0], [1.0, 1.0], 1), ValueError, "AdaptiveBlur: axis 1 is out of range for a tensor with 1 axes"),
        ((1.0, 1.0), ValueError, "AdaptiveBlur: axis 0 is out of range for a tensor with 0 axes"),
        (([1.0, 2.0], [1.0, 1.0, 1.0]), ValueError, r"AdaptiveBlur: shapes \(2,\) and \(3,\) do not broadcast"),
        (([1.0], [1.0], 0, "wrap"), ValueError, "AdaptiveBlur: edge is one of 'drop', 'return', 'renorm', got 'wrap'"),
        (([1.0], [1.0], 0, "drop", "left"), ValueError, "radius_grad is one of 'exact', 'seed', got 'left'"),
        (("text", [1.0]), TypeError, "AdaptiveBlur: a Tensor is needed, got str"),
        (([1.0], "text"), TypeError, "AdaptiveBlur: a Tensor is needed, got str"),
    ],
)
def test_what_cannot_be_blurred_is_an_error_that_says_why(arguments, error, text):
    with pytest.raises(error, match=text):
        adaptive_blur(*arguments)


def test_values_and_radii_on_two_devices_are_an_error_that_names_both():
    emulated = pytest.importorskip("emulated", exc_type=ImportError, reason="the emulated device needs cupy")
    elsewhere = ndl.Tensor([1.0], device=emulated.device() if ndl.default_device() == ndl.cpu() else ndl.cpu())
    with pytest.raises(ValueError, match=r"AdaptiveBlur: operands on .* and .*: move one"):
        adaptive_blur(ndl.Tensor([1.0]), elsewhere)
