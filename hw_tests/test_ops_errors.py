"""What an op cannot do is a ValueError, TypeError or IndexError that names the op, raised before anything happens."""

import operator

import numpy as np
import pytest

import needle as ndl
from needle import ops

X = ndl.Tensor(np.ones((2, 3)))
V = ndl.Tensor(np.ones(3))
SCALAR = ndl.Tensor(1.0)
TUPLE = ops.make_tuple(X, V)
BOOL = ndl.Tensor([True, False, True])

UNARY = {
    "Negate": ops.negate,
    "Exp": ops.exp,
    "Log": ops.log,
    "Sqrt": ops.sqrt,
    "Tanh": ops.tanh,
    "Sigmoid": ops.sigmoid,
    "ReLU": ops.relu,
    "Abs": ops.abs,
    "sign": ops.sign,
    "AddScalar": lambda a: ops.add_scalar(a, 1),
    "MulScalar": lambda a: ops.mul_scalar(a, 1),
    "DivScalar": lambda a: ops.divide_scalar(a, 1),
    "PowerScalar": lambda a: ops.power_scalar(a, 1),
    "EWiseAdd": lambda a: ops.add(a, 1.0),
    "EWiseMul": lambda a: ops.multiply(X, a),
    "EWiseDiv": lambda a: ops.divide(X, a),
    "EWisePow": lambda a: ops.power(X, a),
    "Maximum": lambda a: ops.maximum(X, a),
    "Minimum": lambda a: ops.minimum(a, X),
    "Where": lambda a: ops.where(BOOL, a, 0.0),
    "Cast": lambda a: ops.astype(a, "float32"),
    "To": lambda a: ops.to(a, ndl.cpu()),
    "Summation": ops.summation,
    "mean": ops.mean,
    "Max": ops.max,
    "Min": ops.min,
    "LogSumExp": ops.logsumexp,
    "LogSoftmax": ops.logsoftmax,
    "Softmax": ops.softmax,
    "BroadcastTo": lambda a: ops.broadcast_to(a, (2, 3)),
    "SumTo": lambda a: ops.sum_to(a, ()),
    "Reshape": lambda a: ops.reshape(a, (-1,)),
    "Transpose": ops.transpose,
    "Permute": lambda a: ops.permute(a, (0, 1)),
    "Flip": ops.flip,
    "squeeze": ops.squeeze,
    "expand_dims": lambda a: ops.expand_dims(a, 0),
    "Concatenate": lambda a: ops.concatenate([X, a]),
    "Stack": lambda a: ops.stack([a, X]),
    "Split": ops.split,
    "MakeTensorTuple": lambda a: ops.make_tuple(X, a),
    "FusedAddScalars": lambda a: ops.fused_add_scalars(a, 1, 2),
    "MatMul": lambda a: ops.matmul(a, X),
    "EinSum": lambda a: ops.einsum("ij,ij", X, a),
    "GetItem": lambda a: ops.getitem(a, 0),
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize(
    "bad",
    [None, "text", {1: 2}, TUPLE, object(), np.array(["a", "b"]), np.array([1j]), np.array([None]), [[1.0], "a"]],
    ids=["None", "str", "dict", "tuple", "object", "strings", "complex", "objects", "list"],
)
def test_what_holds_no_numbers_is_refused_by_every_op_by_name(name, bad):
    with pytest.raises((TypeError, ValueError), match=rf"^{name}: "):
        UNARY[name](bad)


AXES = {
    "Summation": ops.summation,
    "mean": ops.mean,
    "Max": ops.max,
    "Min": ops.min,
    "LogSumExp": ops.logsumexp,
    "Flip": ops.flip,
    "squeeze": ops.squeeze,
    "expand_dims": ops.expand_dims,
    "Permute": ops.permute,
}


@pytest.mark.parametrize("name", AXES)
def test_axes_out_of_range_twice_or_no_integers_are_refused(name):
    for axes in ((0, 7), (0, -7), 9):
        with pytest.raises(ValueError, match=rf"^{name}: axis -?\d is out of range for a tensor with \d axes"):
            AXES[name](X, axes)
    with pytest.raises(ValueError, match=rf"^{name}: axes \(0, 0\) name an axis twice"):
        AXES[name](X, (0, 0))
    for axes in (0.5, "a", (0, 1.0), (None,), [[0]]):
        with pytest.raises(TypeError, match=rf"^{name}: .* is made of integers, got"):
            AXES[name](X, axes)


ONE_AXIS = {
    "Concatenate": lambda axis: ops.concatenate([X, X], axis),
    "Stack": lambda axis: ops.stack([X, X], axis),
    "Split": lambda axis: ops.split(X, axis),
}


@pytest.mark.parametrize("name", ONE_AXIS)
def test_one_axis_must_be_an_integer_in_range(name):
    for axis in (5, -5):
        with pytest.raises(ValueError, match=rf"^{name}: axis {axis} is out of range"):
            ONE_AXIS[name](axis)
    for axis in (0.5, None, (0,), "a"):
        with pytest.raises(TypeError, match=rf"^{name}: one axis is needed, an integer, got"):
            ONE_AXIS[name](axis)


NUMBER = {
    "AddScalar": ops.add_scalar,
    "MulScalar": ops.mul_scalar,
    "DivScalar": ops.divide_scalar,
    "PowerScalar": ops.power_scalar,
    "FusedAddScalars": lambda a, c: ops.fused_add_scalars(a, 1, c),
}


@pytest.mark.parametrize("name", NUMBER)
@pytest.mark.parametrize("number", [None, "a", 1j, X, np.ones(2), [1], np.complex64(1)], ids=repr)
def test_a_scalar_op_takes_one_real_number(name, number):
    with pytest.raises(TypeError, match=rf"^{name}: a number is needed, got"):
        NUMBER[name](X, number)


SHAPES = [
    ("BroadcastTo", lambda: X.broadcast_to((3, 3)), r"shape \(2, 3\) does not broadcast to \(3, 3\)"),
    ("BroadcastTo", lambda: X.broadcast_to((3,)), r"shape \(2, 3\) does not broadcast to \(3,\)"),
    ("BroadcastTo", lambda: X.broadcast_to((-1, 3)), r"a size is not negative, got \(-1, 3\)"),
    ("SumTo", lambda: ops.sum_to(X, (3, 3)), r"shape \(2, 3\) is no broadcast of \(3, 3\)"),
    ("SumTo", lambda: ops.sum_to(V, (1, 3)), r"shape \(3,\) is no broadcast of \(1, 3\)"),
    ("Reshape", lambda: X.reshape(4, 2), r"\(2, 3\) has 6 elements, \(4, 2\) has 8"),
    ("Reshape", lambda: X.reshape(4, -1), r"\(2, 3\) has 6 elements, which \(4, -1\) does not divide"),
    ("Reshape", lambda: X.reshape(-1, -1), r"only one size can be worked out"),
    ("Reshape", lambda: X.reshape(-2, 3), r"a size is not negative, got \(-2, 3\)"),
    ("Reshape", lambda: X.reshape(0, -1), r"which \(0, -1\) does not divide"),
    ("Transpose", lambda: V.transpose(), r"two axes are needed, got shape \(3,\)"),
    ("Transpose", lambda: X.transpose((0, 1, 1)), r"a pair of axes is swapped, got \(0, 1, 1\)"),
    ("Transpose", lambda: X.transpose(0), r"a pair of axes is swapped"),
    ("Transpose", lambda: X.transpose((5, 5)), r"axis 5 is out of range"),
    ("Permute", lambda: X.permute((0,)), r"\(0,\) does not name every axis of shape \(2, 3\)"),
    ("squeeze", lambda: X.squeeze(0), r"axis 0 of shape \(2, 3\) has size 2, not 1"),
    ("Concatenate", lambda: ops.concatenate([X, V]), r"shapes \(2, 3\) and \(3,\) differ elsewhere than along axis 0"),
    ("Concatenate", lambda: ops.concatenate([X, X.transpose()]), r"shapes \(2, 3\) and \(3, 2\) differ"),
    ("Concatenate", lambda: ops.concatenate([SCALAR]), r"axis 0 is out of range for a tensor with 0 axes"),
    ("Concatenate", lambda: ops.concatenate([]), r"at least one tensor is needed"),
    ("Stack", lambda: ops.stack([X, V]), r"shapes \(2, 3\) and \(3,\) differ"),
    ("Stack", lambda: ops.stack([]), r"at least one tensor is needed"),
    ("MakeTensorTuple", lambda: ops.make_tuple(), r"at least one tensor is needed"),
    ("Split", lambda: ops.split(SCALAR), r"axis 0 is out of range for a tensor with 0 axes"),
    ("LogSoftmax", lambda: ops.logsoftmax(SCALAR), r"at least one axis is needed, got a 0-d tensor"),
    ("Softmax", lambda: ops.softmax(SCALAR), r"at least one axis is needed, got a 0-d tensor"),
    ("mean", lambda: ops.mean(ndl.Tensor(np.ones((0, 3))), 0), r"no elements along axes \(0,\) of shape \(0, 3\)"),
    ("Max", lambda: ops.max(ndl.Tensor(np.ones((0, 3)))), r"no elements along axes \(0, 1\) of shape \(0, 3\)"),
    ("Min", lambda: ops.min(ndl.Tensor(np.ones((3, 0))), -1), r"no elements along axes \(1,\) of shape \(3, 0\)"),
    ("MatMul", lambda: X @ X, r"\(2, 3\) @ \(2, 3\): inner sizes 3 and 2 differ"),
    ("MatMul", lambda: V @ np.ones(2), r"\(3,\) @ \(2,\): inner sizes 3 and 2 differ"),
    ("MatMul", lambda: np.ones((3, 4)) @ X, r"\(3, 4\) @ \(2, 3\): inner sizes 4 and 2 differ"),
    ("MatMul", lambda: X @ SCALAR, r"\(2, 3\) @ \(\): a 0-d operand has no axis to sum over"),
    ("MatMul", lambda: np.ones((2, 1, 3)) @ ndl.Tensor(np.ones((3, 3, 1))), r"batch axes: shapes \(2,\) and \(3,\)"),
    ("EinSum", lambda: ops.einsum("ij,jk", X, X), r"letter 'j' is 3 and 2"),
    ("EinSum", lambda: ops.einsum("i->i", X), r"'i->i' gives 'i' for an operand with 2 axes"),
    ("EinSum", lambda: ops.einsum("ij->k", X), r"output letter 'k' of 'ij->k' must stand in an operand"),
    ("EinSum", lambda: ops.einsum("ij->ii", X), r"output letter 'i' of 'ij->ii' must stand in an operand, and once"),
    ("EinSum", lambda: ops.einsum("ij,jk->ik", X), r"'ij,jk->ik' names 2 operands, got 1"),
    ("EinSum", lambda: ops.einsum("i&->i", X), r"'i&->i' gives 'i&'"),
    ("EinSum", lambda: ops.einsum("...,...", X, np.ones((3, 2))), r"letter .* is 2 and 3|2 and 3"),
    ("Where", lambda: ops.where(BOOL, X, np.ones((2, 2))), r"shapes \(3,\) and \(2, 3\) and \(2, 2\) do not broadcast"),
    (">", lambda: operator.gt(X, np.ones((2, 2))), r"shapes \(2, 3\) and \(2, 2\) do not broadcast"),
    ("PowerScalar", lambda: ndl.Tensor([2]) ** -1, r"an integer to a negative integer power is a fraction"),
    ("ScalarPower", lambda: 2 ** ndl.Tensor([-1]), r"an integer to a negative integer power is a fraction"),
    ("EWisePow", lambda: ndl.Tensor([2]) ** ndl.Tensor([-1]), r"an integer to a negative integer power is a fraction"),
]


@pytest.mark.parametrize("name, call, text", SHAPES)
def test_shapes_and_values_that_do_not_fit_are_named(name, call, text):
    with pytest.raises(ValueError, match=rf"^{name}: .*(?:{text})"):
        call()


@pytest.mark.parametrize("shape", [None, 2.5, "ab", (2, 3.0), (None, 2)], ids=repr)
def test_a_shape_is_made_of_integers(shape):
    for name, fn in {"Reshape": ops.reshape, "BroadcastTo": ops.broadcast_to, "SumTo": ops.sum_to}.items():
        with pytest.raises(TypeError, match=rf"^{name}: a shape is made of integers, got"):
            fn(X, shape)


@pytest.mark.parametrize("condition", [X, V, [True], True, None, np.ones(3), "a"], ids=repr)
def test_a_condition_must_be_boolean(condition):
    with pytest.raises(TypeError, match=r"^Where: the condition must be boolean, got"):
        ops.where(condition, X, X)


@pytest.mark.parametrize("sequence", [5, None, 1.0], ids=repr)
def test_joining_takes_a_sequence(sequence):
    for name, fn in {"Concatenate": ops.concatenate, "Stack": ops.stack}.items():
        with pytest.raises(TypeError, match=rf"^{name}: a sequence of tensors is needed, got"):
            fn(sequence)


INDICES = [
    (IndexError, 2, r"index 2 is out of range for axis 0 of size 2"),
    (IndexError, -3, r"index -3 is out of range for axis 0 of size 2"),
    (IndexError, (0, 3), r"index 3 is out of range for axis 1 of size 3"),
    (IndexError, (..., -4), r"index -4 is out of range for axis 1 of size 3"),
    (IndexError, [0, 5], r"indices 0 to 5 are out of range for axis 0 of size 2"),
    (IndexError, (slice(None), np.array([-4, 0])), r"indices -4 to 0 are out of range for axis 1 of size 3"),
    (IndexError, (0, 0, 0), r"3 indices for a tensor of shape \(2, 3\)"),
    (IndexError, (..., ...), r"'...' can stand only once"),
    (IndexError, np.ones(3, bool), r"a mask of shape \(3,\) on axes of shape \(2,\)"),
    (IndexError, np.ones((3, 2), bool), r"a mask of shape \(3, 2\) on axes of shape \(2, 3\)"),
    (IndexError, np.ones((2, 3, 1), bool), r"3 indices for a tensor of shape \(2, 3\)"),
    (IndexError, ([0, 1], [0, 1, 2]), r"index arrays of shapes \(2,\), \(3,\) do not broadcast together"),
    (IndexError, (np.ones(2, bool), [0, 1, 2]), r"index arrays of shapes \(2,\), \(3,\) do not broadcast together"),
    (TypeError, 1.0, r"float is no index"),
    (TypeError, "a", r"str is no index"),
    (TypeError, {0}, r"set is no index"),
    (TypeError, np.array([1.0]), r"an index array holds integers or booleans, got float64"),
    (TypeError, V, r"an index array holds integers or booleans, got float64"),
    (TypeError, [0.5], r"an index array holds integers or booleans, got float64"),
    (TypeError, [[0], [0, 1]], r"\[\[0\], \[0, 1\]\] is no array of integers or booleans"),
    (TypeError, slice(0.5, 1), r"slice indices must be integers"),
    (TypeError, slice("a"), r"slice indices must be integers"),
    (ValueError, slice(None, None, 0), r"slice step cannot be zero"),
]


@pytest.mark.parametrize("error, index, text", INDICES, ids=lambda value: repr(value)[:40])
def test_bad_indices_are_refused_with_axis_and_size(error, index, text):
    with pytest.raises(error, match=rf"^GetItem: {text}"):
        X[index]


def test_items_of_tuples_that_are_not_there_are_refused():
    for index in (2, -3):
        with pytest.raises(IndexError, match=rf"^tuple_get_item: index {index} is out of range for a tuple of 2"):
            ops.tuple_get_item(TUPLE, index)
    with pytest.raises(TypeError, match=r"^tuple_get_item: the index is an integer"):
        ops.tuple_get_item(TUPLE, slice(1))
    with pytest.raises(TypeError, match=r"^tuple_get_item: a TensorTuple is needed, got Tensor"):
        ops.tuple_get_item(X, 0)


def test_booleans_have_no_negative():
    for call in (lambda: -BOOL, lambda: BOOL - BOOL, lambda: ops.negate(BOOL)):
        with pytest.raises(TypeError, match=r"^Negate: a boolean tensor has no negative"):
            call()
    with pytest.raises(TypeError, match=r"^sign: a boolean tensor has no sign"):
        ops.sign(BOOL)


def wide(a, gates):
    return ops.concatenate([a] * gates, 1)


FLOATING = {
    "attention": lambda a: ops.attention(*[ops.reshape(a, (1, 1, 2, 2))] * 3),
    "self_attention": lambda a: ops.self_attention(ops.reshape(ops.stack([a, a, a]), (1, 2, 3, 1, 2))),
    "rnn": lambda a: ops.rnn(ops.reshape(a, (1, 2, 2)), a, a, a),
    "lstm": lambda a: ops.lstm(ops.reshape(a, (1, 2, 2)), a, a, wide(a, 4), wide(a, 4)),
    "gru": lambda a: ops.gru(ops.reshape(a, (1, 2, 2)), a, wide(a, 3), wide(a, 3)),
}


@pytest.mark.parametrize("name", FLOATING)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64"])
def test_what_computes_in_place_takes_no_integers(name, dtype):
    with pytest.raises(TypeError, match=rf"^{name}: .* of a floating dtype is needed, got {dtype}: use astype"):
        FLOATING[name](ndl.Tensor(np.ones((2, 2)), dtype=dtype))


@pytest.mark.parametrize("dtype", ["complex64", "str", "object", "no such", 5, "datetime64[s]"], ids=repr)
def test_casts_to_what_is_no_number_are_refused(dtype):
    with pytest.raises(TypeError, match=r"^Cast: "):
        X.astype(dtype)


def test_only_devices_are_moved_to():
    with pytest.raises(TypeError, match=r"^To: a device is needed, ndl.cpu\(\) or ndl.cuda\(\), got str"):
        X.to("cpu")


@pytest.mark.parametrize("other", [None, "a", [1.0, 1.0, 1.0], 1j, {}, TUPLE], ids=lambda o: type(o).__name__)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "pow", "matmul"])
def test_operators_refuse_what_is_neither_tensor_nor_array_nor_number(name, other):
    for left, right in ((X, other), (other, X)):
        with pytest.raises(TypeError, match=r"Tensor"):
            getattr(operator, name)(left, right)


@pytest.mark.parametrize("values", ["a", 1j, None], ids=repr)
def test_operators_refuse_arrays_that_hold_no_numbers(values):
    array = np.array([values] * 3)
    for name, call in {
        "EWiseAdd": lambda: X + array,
        "EWiseMul": lambda: array * X,
        "EWiseDiv": lambda: array / X,
        "MatMul": lambda: X @ array,
        ">=": lambda: operator.ge(X, array),
    }.items():
        with pytest.raises(TypeError, match=rf"^{name}: real numbers are needed, got an array of dtype"):
            call()


def test_a_zero_dimensional_tensor_is_not_iterated_over():
    with pytest.raises(TypeError, match=r"a 0-d tensor cannot be iterated over"):
        list(SCALAR)


LABELS = np.array([0])
BY_HAND = [  # an op, what it is applied to, and its function's call
    (ops.Reshape((4,)), [X], lambda: ops.reshape(X, (4,))),
    (ops.Reshape("a"), [X], lambda: ops.reshape(X, "a")),
    (ops.BroadcastTo((2, 2)), [X], lambda: ops.broadcast_to(X, (2, 2))),
    (ops.SumTo((2,)), [X], lambda: ops.sum_to(X, (2,))),
    (ops.Transpose(), [V], lambda: ops.transpose(V)),
    (ops.Transpose((0, 1, 2)), [X], lambda: ops.transpose(X, (0, 1, 2))),
    (ops.Permute((0,)), [X], lambda: ops.permute(X, (0,))),
    (ops.Flip(4), [X], lambda: ops.flip(X, 4)),
    (ops.Summation(5), [X], lambda: ops.summation(X, 5)),
    (ops.Max(5), [X], lambda: ops.max(X, 5)),
    (ops.Min("a"), [X], lambda: ops.min(X, "a")),
    (ops.LogSumExp(4), [X], lambda: ops.logsumexp(X, 4)),
    (ops.LogSoftmax(), [SCALAR], lambda: ops.logsoftmax(SCALAR)),
    (ops.Softmax(), [SCALAR], lambda: ops.softmax(SCALAR)),
    (ops.Concatenate(0), [X, V], lambda: ops.concatenate([X, V], 0)),
    (ops.Stack(7), [(X, X)], lambda: ops.stack([X, X], 7)),
    (ops.Split(9), [X], lambda: ops.split(X, 9)),
    (ops.Pad(((1, 1),)), [X], lambda: ops.pad(X, ((1, 1),))),
    (ops.Dilate("a", 1), [X], lambda: ops.dilate(X, "a", 1)),
    (ops.UnDilate(0, -1), [X], lambda: ops.undilate(X, 0, -1)),
    (ops.GetItem(7), [X], lambda: ops.getitem(X, 7)),
    (ops.AddScalar("a"), [X], lambda: ops.add_scalar(X, "a")),
    (ops.MulScalar(V), [X], lambda: ops.mul_scalar(X, V)),
    (ops.DivScalar([1]), [X], lambda: ops.divide_scalar(X, [1])),
    (ops.PowerScalar(None), [X], lambda: ops.power_scalar(X, None)),
    (ops.FusedAddScalars("a", 1), [X], lambda: ops.fused_add_scalars(X, "a", 1)),
    (ops.EWiseAdd(), [X, np.ones(2)], lambda: ops.add(X, np.ones(2))),
    (ops.EWiseMul(), [X, np.ones(2)], lambda: ops.multiply(X, np.ones(2))),
    (ops.Maximum(), [X, np.ones(2)], lambda: ops.maximum(X, np.ones(2))),
    (ops.Where(), [X, X, X], lambda: ops.where(X, X, X)),
    (ops.MatMul(), [X, X], lambda: ops.matmul(X, X)),
    (ops.Conv(stride=0), [X, X], lambda: ops.conv(X, X, stride=0)),
    (ops.Conv(), [X, X], lambda: ops.conv(X, X)),
    (ops.Cast("text"), [X], lambda: ops.astype(X, "text")),
    (ops.To("cuda"), [X], lambda: ops.to(X, "cuda")),
    (ops.CrossEntropy(), [X, LABELS], lambda: ops.cross_entropy(X, LABELS)),
    (ops.LayerNorm(1e-5), [X, V, SCALAR], lambda: ops.layer_norm(X, V, SCALAR)),
    (ops.BatchNorm(1e-5), [X, V, SCALAR], lambda: ops.batch_norm(X, V, SCALAR)),
]


@pytest.mark.parametrize("op, operands, function", BY_HAND, ids=lambda value: getattr(type(value), "__name__", ""))
def test_an_op_that_is_applied_by_hand_says_what_its_function_says(op, operands, function):
    with pytest.raises((TypeError, ValueError, IndexError)) as expected:
        function()
    with pytest.raises(type(expected.value)) as found:
        op(*operands)
    assert str(found.value) == str(expected.value)
    assert str(found.value).startswith(f"{type(op).__name__}: ")


@pytest.mark.parametrize("op", [ops.ScalarDiv, ops.ScalarPower, ops.MaximumScalar, ops.MinimumScalar])
def test_a_scalar_op_that_has_no_function_takes_one_real_number_too(op):
    with pytest.raises(TypeError, match=rf"^{op.__name__}: a number is needed, got str"):
        op("a")(X)


@pytest.mark.parametrize("axes", [1, None, 0.5, {}], ids=repr)
def test_the_widths_of_a_padding_are_pairs(axes):
    with pytest.raises(
        TypeError, match=r"^Pad: a pair \(before, after\) for each axis of shape \(2, 3\) is needed, got"
    ):
        ops.pad(X, axes)


@pytest.mark.parametrize("value", [None, "a", [1.0], 1j], ids=repr)
def test_the_constant_of_a_padding_is_a_number(value):
    with pytest.raises(TypeError, match=r"^Pad: the constant is a number, got"):
        ops.pad(X, ((0, 1), (0, 1)), value=value)


def test_lists_of_unequal_lengths_are_no_ids():
    with pytest.raises(TypeError, match=r"^embedding: ids do not make an array: the lists in it have unequal lengths"):
        ops.embedding(X, [[0], [0, 1]])


@pytest.mark.parametrize("keepdims", [None, 1, "yes", [True]], ids=repr)
def test_keepdims_is_true_or_false(keepdims):
    for name, fn in {"Summation": ops.summation, "Max": ops.max, "Min": ops.min}.items():
        with pytest.raises(TypeError, match=rf"^{name}: keepdims is True or False, got"):
            fn(X, 0, keepdims=keepdims)
    with pytest.raises(TypeError, match=r"keepdims is True or False, got"):
        ops.mean(X, 0, keepdims=keepdims)


def test_nothing_is_changed_by_what_fails():
    before = X.numpy().copy()
    for _, call, _ in SHAPES:
        with pytest.raises(ValueError):
            call()
    assert np.array_equal(X.numpy(), before)
    assert X.grad is None
