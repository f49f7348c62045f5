"""Arithmetic and functions of each element: values, the limits that the power rules take, and casts."""

import math
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ops_cases import Draw

import needle as ndl
from needle import ops

SMOOTH = {
    "exp": (ops.exp, np.exp, (-5, 5)),
    "log": (ops.log, np.log, (0.01, 5)),
    "sqrt": (ops.sqrt, np.sqrt, (0, 5)),
    "tanh": (ops.tanh, np.tanh, (-5, 5)),
    "relu": (ops.relu, lambda a: np.where(a > 0, a, 0), (-5, 5)),
    "abs": (ops.abs, np.abs, (-5, 5)),
    "sign": (ops.sign, np.sign, (-5, 5)),
    "negate": (ops.negate, np.negative, (-5, 5)),
}


@pytest.mark.parametrize("name", SMOOTH)
@given(data=st.data())
def test_functions_give_what_numpy_gives(name, data):
    fn, reference, (low, high) = SMOOTH[name]
    d = Draw(data.draw)
    x = d.tensor(d.shape(), low, high)
    np.testing.assert_allclose(fn(x).numpy(), reference(x.numpy()), rtol=1e-15)


@given(st.floats(-700, 700))
def test_sigmoid_is_the_logistic_function(x):
    expected = 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))
    assert math.isclose(ops.sigmoid(ndl.Tensor(x)).item(), expected, rel_tol=1e-14, abs_tol=2**-53)


def test_sigmoid_never_overflows():
    x = ndl.Tensor([-np.inf, -1e30, 0.0, 1e30, np.inf])
    y = ops.sigmoid(x)
    assert y.numpy().tolist() == [0.0, 0.0, 0.5, 1.0, 1.0]
    y.backward(np.ones(5))
    assert x.grad.numpy().tolist() == [0.0, 0.0, 0.25, 0.0, 0.0]


@pytest.mark.parametrize("method", ["exp", "log", "sqrt", "abs"])
def test_methods_are_the_functions(method):
    x = ndl.Tensor([0.5, 2.0])
    assert np.array_equal(getattr(x, method)().numpy(), getattr(ops, method)(x).numpy())


@pytest.mark.parametrize("fn", [ops.exp, ops.log, ops.sqrt, ops.tanh, ops.sigmoid])
def test_transcendental_functions_take_integers_as_float64(fn):
    assert fn(ndl.Tensor([1, 2])).dtype == np.float64
    assert fn(ndl.Tensor([True])).dtype == np.float64


# --------------------------------------------------------------------------------------------------------- arithmetic

OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
}
SCALARS = [2, -1, 0.5, True, np.float32(0.5), np.float64(2), np.int64(3), np.array(1.5), np.array(2)]

every_operator = pytest.mark.parametrize("symbol", OPERATORS)


@every_operator
@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
def test_numbers_on_both_sides_give_what_numpy_gives(symbol, scalar):
    fn, x = OPERATORS[symbol], np.array([[0.5, 1.0, 2.0]])
    tensor = ndl.Tensor(x)
    scalar = abs(scalar) if symbol == "**" else scalar
    for found, expected in ((fn(tensor, scalar), fn(x, scalar)), (fn(scalar, tensor), fn(scalar, x))):
        assert isinstance(found, ndl.Tensor)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-15)


@every_operator
def test_arrays_on_both_sides_are_constants_in_the_graph(symbol):
    fn, x, y = OPERATORS[symbol], np.array([0.5, 1.0]), np.array([2.0, 3.0])
    tensor = ndl.Tensor(x)
    for found, expected in ((fn(tensor, y), fn(x, y)), (fn(y, tensor), fn(y, x))):
        assert isinstance(found, ndl.Tensor)
        assert found.dtype == np.float64
        assert found.requires_grad
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-15)


def test_an_array_and_a_tensor_multiply_as_matrices_from_both_sides():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    for found in (a @ ndl.Tensor(b), ndl.Tensor(a) @ b):
        assert isinstance(found, ndl.Tensor)
        assert np.array_equal(found.numpy(), a @ b)


@every_operator
def test_in_place_operators_rebind_and_leave_the_old_tensor(symbol):
    x = ndl.Tensor([1.0, 2.0])
    y = x
    y = getattr(operator, {"+": "iadd", "-": "isub", "*": "imul", "/": "itruediv", "**": "ipow"}[symbol])(y, 2.0)
    assert x.numpy().tolist() == [1.0, 2.0]
    assert y is not x


@pytest.mark.parametrize("fn", [operator.lt, operator.le, operator.gt, operator.ge])
def test_comparisons_are_constant_booleans(fn):
    x, y = np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])
    for other in (y, ndl.Tensor(y), 2, np.float64(2), np.array(2.0)):
        found = fn(ndl.Tensor(x), other)
        assert found.dtype == bool
        assert not found.requires_grad
        assert np.array_equal(found.numpy(), fn(x, other.numpy() if isinstance(other, ndl.Tensor) else other))
    assert np.array_equal(fn(y, ndl.Tensor(x)).numpy(), fn(y, x))


def test_equality_is_identity_so_that_tensors_are_keys():
    x = ndl.Tensor([1.0])
    assert x == x
    assert x != ndl.Tensor([1.0])
    assert {x: 1}[x] == 1


# ---------------------------------------------------------------------------------------------------- limits of powers


def gradient(fn, *values):
    tensors = [ndl.Tensor(float(v)) for v in values]
    fn(*tensors).backward()
    return [x.grad.item() for x in tensors]


def test_zero_to_a_positive_power_has_the_limits_as_gradients():
    assert gradient(ops.power, 0, 2) == [0, 0]
    assert gradient(ops.power, 0, 1) == [1, 0]


def test_zero_to_the_zero_is_one_and_flat():
    assert ops.power(ndl.Tensor(0.0), ndl.Tensor(0.0)).item() == 1
    assert gradient(ops.power, 0, 0) == [0, 0]


@pytest.mark.parametrize("exponent, expected", [(0, 0), (1, 1), (2, 0), (3, 0), (1.5, 0)])
def test_powers_of_zero_by_a_number(exponent, expected):
    assert gradient(lambda a: a**exponent, 0) == [expected]


def test_second_derivatives_of_powers_at_zero_are_finite():
    x = ndl.Tensor(0.0)
    first = ndl.grad(x**2, x)
    assert ndl.grad(first, x).item() == 2
    assert ndl.grad(ndl.grad(x**3, x), x).item() == 0


@pytest.mark.parametrize("base, expected", [(0, 0), (1, 0), (2, 4 * math.log(2))])
def test_a_number_to_the_power_of_a_tensor(base, expected):
    assert math.isclose(gradient(lambda a: base**a, 2)[0], expected, rel_tol=1e-15)


def test_a_negative_base_with_an_integer_exponent_is_a_number():
    x = ndl.Tensor([-2.0])
    y = x ** ndl.Tensor([3.0], requires_grad=False)
    y.backward()
    assert (y.item(), x.grad.item()) == (-8, 12)


# --------------------------------------------------------------------------------------------------------------- casts


def test_a_cast_gives_the_gradient_back_in_the_old_dtype():
    x = ndl.Tensor([1.0, 2.0])
    g = np.array([1 / 3, 2 / 3])
    x.astype("float32").backward(g)
    assert x.grad.dtype == np.float64
    assert np.array_equal(x.grad.numpy(), g.astype("float32").astype("float64"))


def test_a_cast_to_the_own_dtype_is_the_tensor_itself():
    x = ndl.Tensor([1.0])
    assert x.astype("float64") is x
    assert x.to(x.device) is x


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool"])
def test_rounding_to_integers_is_flat_so_the_result_is_a_constant(dtype):
    y = ndl.Tensor([1.7, 0.0]).astype(dtype)
    assert not y.requires_grad
    assert np.array_equal(y.numpy(), np.array([1.7, 0.0]).astype(dtype))


# ------------------------------------------------------------------------------------------------------------- choices


@given(data=st.data())
def test_where_and_extrema_give_what_numpy_gives(data):
    d = Draw(data.draw)
    a, b = d.tensors(2)
    condition = d.rng.random(a.shape) < 0.5
    assert np.array_equal(ops.where(ndl.Tensor(condition), a, b).numpy(), np.where(condition, a.numpy(), b.numpy()))
    for ours, reference in ((ops.maximum, np.maximum), (ops.minimum, np.minimum)):
        assert np.array_equal(ours(a, b).numpy(), reference(a.numpy(), b.numpy()))
        assert np.array_equal(ours(a, 0.5).numpy(), reference(a.numpy(), 0.5))
        assert np.array_equal(ours(0.5, a).numpy(), reference(0.5, a.numpy()))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "bool", "float32"])
def test_extrema_of_any_dtype_are_right_at_its_limits(dtype):
    limits = {"bool": (False, True), "float32": (-np.inf, np.inf)}
    low, high = limits.get(dtype) or (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = np.array([low, 1, high], dtype)
    for ours, reference in ((ops.maximum, np.maximum), (ops.minimum, np.minimum)):
        found = ours(ndl.Tensor(x), ndl.Tensor(x[::-1]))
        assert np.array_equal(found.numpy(), reference(x, x[::-1]))
        assert found.dtype == dtype
    assert ops.max(ndl.Tensor(x)).item() == high
    assert ops.min(ndl.Tensor(x)).item() == low


def test_numbers_in_where_take_the_tensors_dtype_unless_it_has_no_fractions():
    condition = ndl.Tensor([True, False])
    assert ops.where(condition, ndl.Tensor([1.0, 2.0], dtype="float32"), 0.5).dtype == np.float32
    assert ops.where(condition, 1, ndl.Tensor([1.0, 2.0], dtype="float32")).dtype == np.float32
    assert ops.where(condition, ndl.Tensor([1, 2]), 0.5).numpy().tolist() == [1.0, 0.5]
    assert ops.where(condition, 1.0, 2).numpy().tolist() == [1.0, 2.0]
