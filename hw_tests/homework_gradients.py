"""How homework tests check a gradient: against central differences, with a random cotangent, in float64."""

import numpy as np

import needle as ndl


def random(*shape):
    """Give a float64 tensor of standard normal numbers."""
    return ndl.Tensor(np.random.randn(*shape))


def assert_gradients_are_right(f, *inputs):
    """Compare what backward stores with the slopes that are measured by moving each element a little.

    The cotangent c is random: with ones in its place a gradient that is transposed or permuted could pass.
    """
    out = f(*inputs)
    c = np.random.randn(*out.shape)
    out.backward(ndl.Tensor(c))
    for position, x in enumerate(inputs):
        measured = measure(lambda: (f(*inputs).numpy() * c).sum(), x)
        assert x.grad.shape == x.shape
        np.testing.assert_allclose(x.grad.numpy(), measured, rtol=1e-6, atol=1e-7, err_msg=f"input {position}")


def measure(value, x, step=1e-5):
    """Give the derivative of ``value()`` by each element of `x`."""
    array = x.realize_cached_data()
    slopes = np.zeros(array.shape)
    for index in np.ndindex(*array.shape):
        before = array[index].item()
        array[index] = before + step
        above = value()
        array[index] = before - step
        below = value()
        array[index] = before
        slopes[index] = (above - below) / (2 * step)
    return slopes
