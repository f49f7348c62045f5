"""Initialisations: the course's draws, scaled in float64; shapes, dtypes and errors."""

import numpy as np
import pytest

import needle as ndl
from needle import init

DRAWS = {
    "rand": (lambda: init.rand(3, 4, low=-2.0, high=5.0, dtype="float64"), lambda: np.random.rand(3, 4) * 7.0 - 2.0),
    "randn": (lambda: init.randn(3, 4, mean=2.0, std=3.0, dtype="float64"), lambda: np.random.randn(3, 4) * 3.0 + 2.0),
    "randb": (lambda: init.randb(3, 4, p=0.3), lambda: np.random.rand(3, 4) <= 0.3),
    "xavier_uniform": (
        lambda: init.xavier_uniform(3, 4, gain=1.5, dtype="float64"),
        lambda: (np.random.rand(3, 4) * 2 - 1) * (1.5 * np.sqrt(6 / 7)),
    ),
    "xavier_normal": (
        lambda: init.xavier_normal(3, 4, gain=1.5, dtype="float64"),
        lambda: np.random.randn(3, 4) * (1.5 * np.sqrt(2 / 7)),
    ),
    "kaiming_uniform": (
        lambda: init.kaiming_uniform(3, 4, dtype="float64"),
        lambda: (np.random.rand(3, 4) * 2 - 1) * np.sqrt(2) * np.sqrt(3 / 3),
    ),
    "kaiming_normal": (
        lambda: init.kaiming_normal(3, 4, dtype="float64"),
        lambda: np.random.randn(3, 4) * np.sqrt(2) / np.sqrt(3),
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers_are_those_of_numpys_global_generator(name):
    ours, numpys = DRAWS[name]
    np.random.seed(3)
    first, second = ours().numpy(), ours().numpy()
    np.random.seed(3)
    np.testing.assert_allclose(first, numpys(), rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(second, numpys(), rtol=1e-14, atol=1e-15)


def test_numbers_are_scaled_in_float64_and_then_rounded_once():
    bound = np.sqrt(2) * np.sqrt(3 / 50)
    np.random.seed(3)
    drawn = init.kaiming_uniform(50, 60).numpy()
    np.random.seed(3)
    np.testing.assert_array_equal(drawn, (np.random.rand(50, 60) * (2 * bound) - bound).astype(np.float32))


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3)])
@pytest.mark.parametrize("function", ["rand", "randn", "constant", "ones", "zeros", "randb"])
def test_any_shape_will_do(function, shape):
    x = getattr(init, function)(*shape)
    assert x.shape == shape
    assert isinstance(x.cached_data, type(ndl.Tensor([0]).cached_data))


@pytest.mark.parametrize("function", ["rand", "randn", "constant", "ones", "zeros"])
def test_float32_without_gradient_is_the_default_and_both_can_be_chosen(function):
    make = getattr(init, function)
    assert make(2).dtype == "float32" and not make(2).requires_grad
    x = make(2, dtype="float64", requires_grad=True, device=ndl.cpu())
    assert x.dtype == "float64" and x.requires_grad and x.device == ndl.cpu()


def test_random_booleans_are_booleans_and_need_no_gradient():
    assert init.randb(2).dtype == "bool"
    assert not init.randb(2, requires_grad=True).requires_grad
    assert init.randb(2, dtype="float32").dtype == "float32"


def test_constants_are_constant():
    np.testing.assert_array_equal(init.constant(2, 3, c=-1.5).numpy(), np.full((2, 3), -1.5))
    np.testing.assert_array_equal(init.ones(2).numpy(), [1, 1])
    np.testing.assert_array_equal(init.zeros(2).numpy(), [0, 0])


def test_one_hot_takes_any_shape_and_whole_floats():
    classes = np.array([[2, 0], [1, 2]])
    expected = np.eye(3)[classes]
    for given in (classes, classes.tolist(), ndl.Tensor(classes), ndl.Tensor(classes, dtype="float32")):
        np.testing.assert_array_equal(init.one_hot(3, given).numpy(), expected)
    assert init.one_hot(3, []).shape == (0, 3)
    assert init.one_hot(3, 1).shape == (3,)


@pytest.mark.parametrize(
    ("classes", "message"),
    [([0, 3], "0 to 3 are out of range"), ([-1, 0], "-1 to 0 are out of range"), ([0.5], "fractions"), (["a"], "<U1")],
)
def test_one_hot_refuses_what_is_no_class(classes, message):
    with pytest.raises(ValueError, match=message):
        init.one_hot(3, classes)


def test_like_keeps_shape_and_dtype():
    x = ndl.Tensor(np.arange(6).reshape(2, 3))
    for function, value in ((init.zeros_like, 0), (init.ones_like, 1)):
        y = function(x)
        assert y.dtype == x.dtype and not y.requires_grad
        np.testing.assert_array_equal(y.numpy(), np.full((2, 3), value))
        assert function(np.ones((2,), "float32"), requires_grad=True).requires_grad


def test_the_course_may_give_the_nonlinearity_third_and_a_kernels_shape_keeps_the_bound():
    np.random.seed(0)
    first = init.kaiming_uniform(4, 5, "relu").numpy()
    np.random.seed(0)
    np.testing.assert_array_equal(first, init.kaiming_uniform(4, 5).numpy())
    kernel = init.kaiming_uniform(9 * 4, 9 * 5, shape=(3, 3, 4, 5), dtype="float64").numpy()
    assert kernel.shape == (3, 3, 4, 5)
    bound = np.sqrt(6 / 36)
    assert 0.95 * bound < np.abs(kernel).max() <= bound


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: init.rand((3, 4)), TypeError, r"rand\(3, 4\); got \(3, 4\)"),
        (lambda: init.zeros(2.0), TypeError, "integers"),
        (lambda: init.randn(-1), ValueError, "non-negative"),
        (lambda: init.randb(2, p=1.5), ValueError, "probability"),
        (lambda: init.xavier_uniform(0, 3), ValueError, "positive"),
        (lambda: init.kaiming_normal(0, 3), ValueError, "positive"),
        (lambda: init.kaiming_uniform(3, 3, nonlinearity="swish"), ValueError, "relu, linear, sigmoid, tanh"),
        (lambda: init.kaiming_uniform(3, 3, nonlinearity=["relu"]), ValueError, "relu, linear, sigmoid, tanh"),
        (
            lambda: init.kaiming_uniform(3, 3, shape=3),
            TypeError,
            "^kaiming_uniform: shape is a tuple of integers, got 3",
        ),
        (lambda: init.kaiming_normal(None, 3), TypeError, "^kaiming_normal: fan_in is a number, got NoneType"),
        (lambda: init.xavier_normal(3, "a"), TypeError, "^xavier_normal: fan_out is a number, got str"),
        (lambda: init.xavier_uniform(3, 3, gain="a"), TypeError, "^xavier_uniform: gain is a number, got str"),
        (lambda: init.rand(2, low="a"), TypeError, "^rand: low is a number, got str"),
        (lambda: init.rand(2, high=None), TypeError, "^rand: high is a number, got NoneType"),
        (lambda: init.randn(2, std=[1.0]), TypeError, "^randn: std is a number, got list"),
        (lambda: init.randn(2, mean=1j), TypeError, "^randn: mean is a number, got complex"),
        (lambda: init.randb(2, p="a"), TypeError, "^randb: p is a number, got str"),
        (lambda: init.constant(2, c=[1.0, 2.0]), TypeError, "^constant: c is a number, got list"),
        (lambda: init.ones("a"), TypeError, "^ones: sizes are non-negative integers"),
        (lambda: init.one_hot("a", [0]), TypeError, "^one_hot: n is an integer of at least 0, got 'a'"),
        (lambda: init.one_hot(2, [[0], [0, 1]]), TypeError, "^one_hot: class numbers do not make an array"),
        (lambda: init.one_hot(2, [float("nan")]), ValueError, "^one_hot: class numbers are integers, got fractions"),
        (lambda: init.one_hot(2, [float("inf")]), ValueError, "^one_hot: class numbers are integers, got fractions"),
        (lambda: init.ones_like([[0], [0, 1]]), TypeError, "^ones_like: numbers do not make an array"),
    ],
)
def test_errors_say_what_would_have_worked(call, error, message):
    before = np.random.get_state()[2]
    with pytest.raises(error, match=message):
        call()
    assert np.random.get_state()[2] == before, "a refused call has drawn numbers"


MAKERS = {
    "rand": lambda **kind: init.rand(2, **kind),
    "randn": lambda **kind: init.randn(2, **kind),
    "randb": lambda **kind: init.randb(2, **kind),
    "constant": lambda **kind: init.constant(2, **kind),
    "ones": lambda **kind: init.ones(2, **kind),
    "zeros": lambda **kind: init.zeros(2, **kind),
    "one_hot": lambda **kind: init.one_hot(2, [0], **kind),
    "ones_like": lambda **kind: init.ones_like([0], **kind),
    "zeros_like": lambda **kind: init.zeros_like(np.ones(2), **kind),
}


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_no_device_or_no_dtype_of_numbers_is_refused_before_anything_is_drawn(name):
    np.random.seed(0)
    for device in ("cuda", 0, []):
        with pytest.raises(TypeError, match=rf"^{name}: a device is ndl.cpu\(\) or ndl.cuda\(\), got"):
            MAKERS[name](device=device)
    for dtype in ("complex64", object, "no such", 5):
        with pytest.raises(TypeError, match=rf"^{name}: a dtype of real numbers, such as 'float32', is needed, got"):
            MAKERS[name](dtype=dtype)
    left = np.random.rand()
    np.random.seed(0)
    assert np.random.rand() == left
