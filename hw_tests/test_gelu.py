"""The normal distribution function, and the activation that is made of it."""

import math

import numpy as np
import pytest

import needle as ndl
from needle.gradcheck import gradcheck, gradgradcheck


def test_the_distribution_function_is_that_of_the_standard_library_to_the_last_digits():
    x = np.concatenate([np.linspace(-8, 8, 4001), np.linspace(-38, -8, 301), [0.0, -0.0, 1e-300, 40.0]])
    exact = np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x])
    np.testing.assert_allclose(ndl.normal_cdf(x), exact, rtol=3e-13, atol=0)
    near = np.abs(x) < 5
    np.testing.assert_allclose(ndl.normal_cdf(x[near]), exact[near], rtol=1e-14, atol=0)


def test_it_reaches_its_limits_without_overflow():
    x = np.array([-np.inf, -1e300, -50.0, 50.0, 1e300, np.inf])
    np.testing.assert_array_equal(ndl.normal_cdf(x), [0, 0, 0, 1, 1, 1])
    assert np.isnan(ndl.normal_cdf(np.array([np.nan])))
    x = np.array([-3e38, 3e38], dtype=np.float32)
    np.testing.assert_array_equal(ndl.normal_cdf(x), np.array([0, 1], dtype=np.float32))


def test_large_arrays_are_computed_in_blocks_that_fit_together():
    x = np.random.randn(7, 5001)
    np.testing.assert_array_equal(ndl.normal_cdf(x)[3, 2000:2100], ndl.normal_cdf(x[3, 2000:2100]))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_has_gradients_of_first_and_second_order(approximate):
    x = np.concatenate([np.random.randn(6), [0.0, -5.0, 6.0]])
    assert gradcheck(lambda a: ndl.gelu(a, approximate), x)
    assert gradgradcheck(lambda a: ndl.gelu(a, approximate), x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_is_that_of_torch(torch, approximate, dtype):
    from torch_reference import assert_agree

    x = (np.random.randn(50, 7) * 3).astype(dtype)
    gelu = torch.nn.functional.gelu
    assert_agree(lambda a: ndl.gelu(a, approximate), lambda a: gelu(a, approximate=approximate), [x])


def test_what_is_no_float_or_no_approximation_is_an_error():
    with pytest.raises(TypeError, match="gelu: a float dtype is needed, got int64"):
        ndl.gelu(ndl.Tensor([1, 2]))
    with pytest.raises(ValueError, match="approximate is 'none' or 'tanh', got 'erf'"):
        ndl.gelu(ndl.Tensor([1.0]), "erf")
