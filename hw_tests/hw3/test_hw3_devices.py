"""Homework 3, devices: which there are, what is made on them, and that results stay where their operands are."""

import numpy as np
import pytest

import needle as ndl
from needle import backend_ndarray as nd
from needle import nn


def numpy(array):
    """Give an array of any device as NumPy's."""
    return ndl.Tensor(array, requires_grad=False).numpy()


def test_the_cpu_and_the_gpu_are_known_and_the_cpu_works():
    assert {str(device) for device in ndl.all_devices()} >= {"cpu()", "cuda()"}
    assert ndl.cpu().enabled() and ndl.cpu() == nd.cpu() and ndl.cuda() == nd.cuda() and ndl.cpu() != ndl.cuda()
    assert ndl.default_device().enabled() and ndl.default_device() == nd.default_device()


def test_a_gpu_that_is_not_there_is_an_error_when_it_is_used():
    if ndl.cuda().enabled():
        pytest.skip("there is a GPU")
    with pytest.raises(RuntimeError):
        nd.array([1.0], device=ndl.cuda())


@pytest.mark.parametrize("device", [None, ndl.cpu()], ids=["default", "cpu"])
def test_what_is_made_on_a_device_stays_there_with_its_gradients(device):
    expected = ndl.default_device() if device is None else device
    x = ndl.Tensor([[1.0, -2.0]], device=device)
    layer = nn.Linear(2, 3, device=device, dtype="float64")
    y = (ndl.relu(layer(x)) * 2).sum()
    y.backward()
    made = [ndl.init.zeros(2, device=device), ndl.init.randn(2, device=device), ndl.init.one_hot(3, [1], device=device)]
    assert {t.device for t in (x, y, x.grad, *layer.parameters(), layer.weight.grad, *made)} == {expected}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["rand", "randn"])
def test_a_device_gives_the_numbers_of_numpys_generator(name, dtype):
    np.random.seed(5)
    array = getattr(ndl.default_device(), name)(3, 4, dtype=dtype)
    np.random.seed(5)
    np.testing.assert_array_equal(numpy(array), getattr(np.random, name)(3, 4).astype(dtype))


def test_a_device_gives_rows_of_the_identity():
    array = ndl.default_device().one_hot(4, np.array([3, 0, 3]))
    assert numpy(array).dtype == np.float32
    np.testing.assert_array_equal(numpy(array), np.eye(4)[[3, 0, 3]])


def test_a_device_gives_arrays_of_one_value_or_of_any():
    device = ndl.default_device()
    np.testing.assert_array_equal(numpy(device.full((2, 3), 7.0)), np.full((2, 3), 7))
    assert device.empty((3, 1)).shape == (3, 1)


def test_a_tensor_is_read_with_numpy_wherever_it_is():
    values = np.random.randn(3, 4)
    for device in (None, ndl.cpu()):
        array = ndl.Tensor(values, device=device).numpy()
        assert type(array) is np.ndarray
        np.testing.assert_array_equal(array, values)


def test_writing_into_the_live_array_changes_the_tensor():
    x = ndl.Tensor([1.0, 2.0, 3.0])
    x.realize_cached_data()[1:] = 9
    np.testing.assert_array_equal((x + 0).numpy(), [1, 9, 9])
