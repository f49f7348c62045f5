"""Dtypes: a number never widens a tensor, tensors promote as in NumPy, gradients come back in their tensor's dtype."""

import operator

import numpy as np
import pytest

import needle as ndl
from needle import ops

OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
}
NUMBERS = [
    2,
    0.5,
    True,
    np.sqrt(2),
    np.float32(0.5),
    np.float16(0.5),
    np.longdouble(0.5),
    np.int64(3),
    np.int8(3),
    np.uint8(3),
    np.bool_(True),
    np.array(0.5),
    np.array(3),
    np.array(0.5, dtype="float32"),
]

every_operator = pytest.mark.parametrize("symbol", OPERATORS)
every_shape = pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0,)], ids=str)
narrow = pytest.mark.parametrize("dtype", ["float32", "float16"])


def tensor(shape, dtype):
    return ndl.Tensor(np.full(shape, 0.5), dtype=dtype)


@every_operator
@every_shape
@narrow
@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: f"{type(n).__name__}({n})")
def test_a_number_never_widens_a_tensor(symbol, shape, dtype, number):
    x, fn = tensor(shape, dtype), OPERATORS[symbol]
    for y in (fn(x, number), fn(number, x)):
        assert y.dtype == dtype
        assert type(y.numpy()) is np.ndarray
        for create_graph in (True, False):
            y.backward(create_graph=create_graph, retain_graph=True)
            assert (x.grad.dtype, x.grad.shape) == (x.dtype, x.shape)


@every_shape
@narrow
@pytest.mark.parametrize(
    "fn",
    [
        ops.exp,
        ops.log,
        ops.sqrt,
        ops.tanh,
        ops.sigmoid,
        ops.relu,
        ops.abs,
        ops.negate,
        ops.summation,
        ops.logsumexp,
        lambda x: ops.mean(x) if x.size else x,
        lambda x: ops.max(x) if x.size else x,
        lambda x: ops.softmax(x) if x.ndim else x,
        lambda x: ops.logsoftmax(x) if x.ndim else x,
        lambda x: ops.maximum(x, np.float64(0.1)),
        lambda x: ops.minimum(np.float64(0.1), x),
        lambda x: ops.where(x > 0.1, x, 1.5),
        lambda x: ops.where(x > 0.1, np.float64(1.5), x),
        lambda x: ops.fused_add_scalars(x, np.float64(1), 2)[0],
        lambda x: ops.stack([x, x]),
        lambda x: x[None],
        lambda x: x[...],
        lambda x: ops.sum_to(x, ()),
        lambda x: ops.einsum("...->...", x),
    ],
)
def test_functions_keep_the_dtype_in_value_and_gradient(fn, shape, dtype):
    x = tensor(shape, dtype)
    y = fn(x)
    assert y.dtype == dtype
    assert type(y.numpy()) is np.ndarray
    if y is not x:
        for create_graph in (True, False):
            y.backward(create_graph=create_graph, retain_graph=True)
            assert x.grad.dtype == dtype
            assert type(x.grad.numpy()) is np.ndarray


@every_operator
@every_shape
def test_two_float_dtypes_promote_and_each_gets_its_own_gradient(symbol, shape):
    a, b = tensor(shape, "float32"), tensor(shape, "float64")
    for y in (OPERATORS[symbol](a, b), OPERATORS[symbol](b, a)):
        assert y.dtype == np.float64
        for create_graph in (True, False):
            y.backward(create_graph=create_graph, retain_graph=True)
            assert (a.grad.dtype, b.grad.dtype) == (np.float32, np.float64)


def test_promotion_holds_for_functions_of_several_tensors():
    a, b = tensor((2, 2), "float32"), tensor((2, 2), "float64")
    for y in (
        a @ b,
        ops.maximum(a, b),
        ops.where(a > 0, a, b),
        ops.concatenate([a, b]),
        ops.stack([a, b]),
        ops.einsum("ij,jk", a, b),
    ):
        assert y.dtype == np.float64
        for create_graph in (True, False):
            y.backward(create_graph=create_graph, retain_graph=True)
            assert (a.grad.dtype, b.grad.dtype) == (np.float32, np.float64)


@every_operator
def test_an_array_promotes_as_a_tensor_does(symbol):
    x = tensor((2,), "float32")
    assert OPERATORS[symbol](x, np.ones(2)).dtype == np.float64
    assert OPERATORS[symbol](np.ones(2), x).dtype == np.float64
    assert OPERATORS[symbol](x, np.ones(2, dtype="float32")).dtype == np.float32


@pytest.mark.parametrize("make", [lambda x: np.ones(3) * x, lambda x: np.ones((2, 3)) @ x, lambda x: np.float64(2) * x])
def test_numpy_on_the_left_never_makes_an_object_array(make):
    y = make(ndl.Tensor(np.ones(3)))
    assert isinstance(y, ndl.Tensor)
    assert y.dtype == np.float64


@pytest.mark.parametrize("ufunc", [np.exp, np.add])
def test_numpys_functions_refuse_tensors(ufunc):
    with pytest.raises(TypeError):
        ufunc(*[ndl.Tensor([1.0])] * ufunc.nin)


# ------------------------------------------------------------------------------------------------------------ integers


def test_integers_stay_integers():
    x = ndl.Tensor([1, 2, 3])
    for y in (x + 1, x - 1, x * 2, x**2, -x, x @ x, x.sum(), ops.max(x), ops.relu(x), ops.abs(x), x[1:], x + x):
        assert y.dtype == np.int64
        assert type(y.numpy()) is np.ndarray


def test_dividing_integers_and_adding_fractions_gives_floats():
    x = ndl.Tensor([1, 2])
    for y in (x / 2, 2 / x, x + 0.5, x * 0.5, x**0.5, ops.mean(x)):
        assert y.dtype == np.float64


def test_an_integer_never_widens_a_tensor_of_small_integers():
    x = ndl.Tensor(np.array([1, 2], dtype="int32"))
    for number in (2, np.int64(2), np.array(2)):
        assert (x + number).dtype == (number * x).dtype == np.int32


def test_gradients_of_integers_are_integers_of_the_same_dtype():
    x = ndl.Tensor(np.array([1, 2], dtype="int32"))
    (x * 3).sum().backward()
    assert x.grad.dtype == np.int32
    assert x.grad.numpy().tolist() == [3, 3]


def test_booleans_never_require_grad():
    x = ndl.Tensor([True, False])
    assert not x.requires_grad
    assert not (ndl.Tensor([1.0]) > 0).requires_grad


def test_a_mask_multiplies_without_widening():
    x = ndl.Tensor([1.0, 2.0], dtype="float32")
    y = x * (x > 1)
    y.backward(np.ones(2))
    assert y.dtype == x.grad.dtype == np.float32
    assert x.grad.numpy().tolist() == [0.0, 1.0]
