"""Homework 2, initialisation: bounds and deviations by fan-in and fan-out, and the order of the draws."""

import numpy as np
import pytest

from needle import init

FAN_IN, FAN_OUT = 300, 200


@pytest.mark.parametrize(
    ("draw", "bound"),
    [(init.xavier_uniform, np.sqrt(6 / (FAN_IN + FAN_OUT))), (init.kaiming_uniform, np.sqrt(2) * np.sqrt(3 / FAN_IN))],
)
def test_uniform_weights_fill_their_interval(draw, bound):
    w = draw(FAN_IN, FAN_OUT).numpy()
    assert w.shape == (FAN_IN, FAN_OUT) and w.dtype == np.float32
    assert 0.999 * bound < np.abs(w).max() <= bound * (1 + 1e-6)
    # 60,000 draws of standard deviation b/√3: that of their mean is b/√3/√60000.
    assert abs(w.mean()) < 5 * bound / np.sqrt(3 * w.size)


@pytest.mark.parametrize(
    ("draw", "deviation"),
    [(init.xavier_normal, np.sqrt(2 / (FAN_IN + FAN_OUT))), (init.kaiming_normal, np.sqrt(2) / np.sqrt(FAN_IN))],
)
def test_normal_weights_have_their_deviation(draw, deviation):
    w = draw(FAN_IN, FAN_OUT).numpy()
    # The standard error of a deviation from n normal draws is σ/√(2n).
    assert abs(w.std() - deviation) < 5 * deviation / np.sqrt(2 * w.size)


def test_weights_are_numpys_draws_scaled():
    np.random.seed(7)
    w = init.kaiming_uniform(4, 3).numpy()
    np.random.seed(7)
    bound = np.sqrt(2) * np.sqrt(3 / 4)
    np.testing.assert_allclose(w, np.random.rand(4, 3) * 2 * bound - bound, rtol=1e-6, atol=1e-7)


def test_the_simple_ones():
    np.testing.assert_array_equal(init.zeros(2, 3).numpy(), np.zeros((2, 3)))
    np.testing.assert_array_equal(init.ones(2, 3).numpy(), np.ones((2, 3)))
    np.testing.assert_array_equal(init.constant(2, c=0.5).numpy(), [0.5, 0.5])
    np.testing.assert_array_equal(init.one_hot(4, [3, 0]).numpy(), np.eye(4)[[3, 0]])
    assert init.randb(1000, p=1.0).numpy().all() and not init.randb(1000, p=0.0).numpy().any()
