"""Every op's gradients, of first and of second order, against finite differences, over drawn shapes and layouts."""

import ast
import importlib
import pathlib
import pkgutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ops_cases import CASES, Draw

import needle as ndl
from needle import autograd, backend, ops
from needle.gradcheck import gradcheck, gradgradcheck

#: Modules of ops that bring their own tests of gradients, and the file that has them. A module that stands neither
#: here nor in the table of cases fails the test below.
TESTED_ELSEWHERE = {
    "attention": "test_attention.py",
    "bias_relu": "test_devices.py",
    "blur": "test_blur_gradients.py",
    "conv": "test_conv.py",
    "dropout": "test_devices.py",
    "embedding": "test_embedding.py",
    "gru": "test_recurrent.py",
    "lstm": "test_recurrent.py",
    "normal": "test_gelu.py",
    "pooling": "test_pooling.py",
    "rnn": "test_recurrent.py",
}

every_op = pytest.mark.parametrize("op", CASES, ids=lambda op: op.__name__)
drawn = settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@pytest.fixture(autouse=True)
def same_bits_every_time():
    """Values that are computed twice are compared bit for bit, also those that a GPU sums in the order of arrival."""
    before = ndl.deterministic(True)
    yield
    ndl.deterministic(before)


def all_ops():
    """The ops that needle defines: subclasses of Op that compute, but for bases that are none of their own."""
    for module in pkgutil.iter_modules(ops.__path__):
        importlib.import_module(f"needle.ops.{module.name}")
    found, left = set(), [ndl.Op]
    while left:
        op = left.pop()
        left += op.__subclasses__()
        base = op.__name__.startswith("_") and op.__subclasses__()
        if op.__module__.startswith("needle.") and op.compute is not ndl.Op.compute and not base:
            found.add(op)
    return found


def applied(fn, inputs):
    """The ops in the graph of ``fn(*inputs)``."""
    outputs = fn(*inputs)
    outputs = [outputs] if isinstance(outputs, autograd.Value) else list(outputs)
    return {type(node.op) for node in autograd.find_topo_sort(outputs)}


def test_every_op_stands_in_the_table_or_in_a_module_tested_elsewhere():
    missing = {op for op in all_ops() - set(CASES) if op.__module__.rpartition(".")[2] not in TESTED_ELSEWHERE}
    assert not missing, f"add these to ops_cases.CASES, so that their gradients are tested: {missing}"


@pytest.mark.parametrize("module, file", TESTED_ELSEWHERE.items())
def test_a_module_tested_elsewhere_is_checked_there_at_second_order(module, file):
    source = (pathlib.Path(__file__).parent / file).read_text()
    called = {getattr(node, "id", getattr(node, "attr", None)) for node in ast.walk(ast.parse(source))}
    assert "gradgradcheck" in called
    functions = {f.__name__ for f in vars(importlib.import_module(f"needle.ops.{module}")).values() if callable(f)}
    assert called & functions


@every_op
@drawn
@given(data=st.data())
def test_gradients_agree_with_finite_differences_at_first_and_second_order(op, data):
    fn, inputs = CASES[op](Draw(data.draw))
    assert op in applied(fn, inputs), f"the case of {op.__name__} does not apply it"
    assert gradcheck(fn, inputs, directions=1)
    assert gradgradcheck(fn, inputs, directions=1)


def outputs_of(fn, inputs):
    outputs = fn(*inputs)
    return list(outputs) if isinstance(outputs, (tuple, ndl.TensorTuple)) else [outputs]


@every_op
@drawn
@given(data=st.data())
def test_an_op_and_its_gradient_change_no_array_that_they_are_given(op, data):
    fn, inputs = CASES[op](Draw(data.draw))
    before = [x.numpy().copy() for x in inputs]
    outputs = outputs_of(fn, inputs)
    values = [out.numpy().copy() for out in outputs]
    seeds = [np.ones(out.shape) for out in outputs]
    for create_graph in (True, False):
        ndl.grad(outputs, inputs, seeds, create_graph=create_graph, allow_unused=True)
    assert all(np.array_equal(x.numpy(), a) for x, a in zip(inputs + outputs, before + values))
    assert all((seed == 1).all() for seed in seeds)


@every_op
@drawn
@given(data=st.data())
def test_values_are_arrays_whoever_asks_and_recorded_only_for_those_who_need_gradients(op, data):
    fn, inputs = CASES[op](Draw(data.draw))
    recorded, constants = outputs_of(fn, inputs), outputs_of(fn, [x.detach() for x in inputs])
    for out, constant in zip(recorded, constants, strict=True):
        kinds = [type(value.realize_cached_data()) for value in (inputs[0], out, constant)]
        assert len(set(kinds)) == 1, "a result is an array of its operands' kind"
        assert np.array_equal(out.numpy(), constant.numpy())
        assert constant.is_leaf() and not constant.requires_grad


@every_op
@drawn
@given(data=st.data())
def test_given_arrays_alone_an_op_only_computes(op, data):
    fn, inputs = CASES[op](Draw(data.draw))
    arrays = [x.realize_cached_data() for x in inputs]
    with backend.scope(arrays):
        found = fn(*arrays)
    for array, out in zip(found if isinstance(found, tuple) else [found], outputs_of(fn, inputs), strict=True):
        assert backend.is_array(array)
        assert np.array_equal(backend.to_numpy(array), out.numpy())


class Node:
    """What a gradient rule that runs on arrays sees of a node."""

    def __init__(self, node, poisoned=()):
        self.inputs = [self.data(i, "inputs" in poisoned) for i in node.inputs]
        self.output = self.data(node, "output" in poisoned)
        self.needs_input_grad = node.needs_input_grad

    def data(self, value, poisoned):
        data = value.realize_cached_data()
        if isinstance(data, tuple):
            return tuple([self.poison(a, poisoned) for a in data])
        return self.poison(data, poisoned)

    @staticmethod
    def poison(array, poisoned):
        return array * np.nan if poisoned and array.dtype.kind == "f" else array


@pytest.mark.parametrize("op", [op for op in CASES if op is not autograd._TupleGetItem], ids=lambda op: op.__name__)
@drawn
@given(data=st.data())
def test_a_rule_reads_no_more_values_than_it_says(op, data):
    """What an op does not declare in `reads` may be gone by then: here it is NaN."""
    fn, inputs = CASES[op](Draw(data.draw))
    node = next(n for n in autograd.find_topo_sort(outputs_of(fn, inputs)) if type(n.op) is op)
    assert node.op.reads is not None, "an op of needle says what its rule reads"
    arrays = node.realize_cached_data()
    undeclared = {"inputs", "output"} - set(node.op.reads)
    with backend.scope(arrays):
        ones = tuple([a * 0 + 1 for a in arrays]) if isinstance(arrays, tuple) else arrays * 0 + 1
        expected, found = (node.op.gradient(ones, Node(node, poisoned)) for poisoned in ((), undeclared))
    assert repr(found) == repr(expected)


A, B = (np.random.default_rng(i).normal(size=(3, 3)) for i in range(2))
BY_HAND = {  # an op as course code applies it, and its function's call
    "Max(0)": (ops.Max(0), lambda a: ops.max(a, 0)),
    "Max(-1)": (ops.Max(-1), lambda a: ops.max(a, -1)),
    "Max()": (ops.Max(), ops.max),
    "Min((-2,))": (ops.Min((-2,), keepdims=True), lambda a: ops.min(a, -2, keepdims=True)),
    "Summation(-1)": (ops.Summation(-1), lambda a: ops.summation(a, -1)),
    "LogSumExp(-1)": (ops.LogSumExp(-1), lambda a: ops.logsumexp(a, -1)),
    "Permute((-1, 0))": (ops.Permute((-1, 0)), lambda a: ops.permute(a, (-1, 0))),
    "Permute((0, -1))": (ops.Permute((0, -1)), lambda a: ops.permute(a, (0, -1))),
    "Transpose((-1, 0))": (ops.Transpose((-1, 0)), lambda a: ops.transpose(a, (-1, 0))),
    "Flip()": (ops.Flip(), ops.flip),
    "Reshape((-1,))": (ops.Reshape((-1,)), lambda a: ops.reshape(a, -1)),
    "GetItem([0, 0])": (ops.GetItem([0, 0]), lambda a: a[[0, 0]]),
    "GetItem(-1)": (ops.GetItem(-1), lambda a: a[-1]),
    "Dilate(0)": (ops.Dilate(0, 2), lambda a: ops.dilate(a, 0, 2)),
    "UnDilate(-1)": (ops.UnDilate(-1, 1), lambda a: ops.undilate(a, -1, 1)),
    "Pad": (ops.Pad([[1, 0], [0, 2]]), lambda a: ops.pad(a, ((1, 0), (0, 2)))),
    "Concatenate(-1)": (lambda a: ops.Concatenate(-1)(a, a), lambda a: ops.concatenate([a, a], 1)),
    "Stack(-1)": (lambda a: ops.Stack(-1)(ops.make_tuple(a, a)), lambda a: ops.stack([a, a], 2)),
    "Split(-1)": (lambda a: ops.Split(-1)(a)[1], lambda a: a[:, 1]),
    "EWiseAdd": (lambda a: ops.EWiseAdd()(a, a[0]), lambda a: a + a[0]),
    "EWiseMul": (lambda a: ops.EWiseMul()(a[0], a), lambda a: a[0] * a),
    "Maximum": (lambda a: ops.Maximum()(a, a[0]), lambda a: ops.maximum(a, a[0])),
    "MatMul": (lambda a: ops.MatMul()(a, a[0]), lambda a: a @ a[0]),
    "DivScalar": (ops.DivScalar(np.array([2.0])), lambda a: a / 2),
}


@pytest.mark.parametrize("op, function", BY_HAND.values(), ids=BY_HAND)
def test_an_op_that_is_applied_by_hand_is_its_function(op, function):
    found = []
    for apply in (op, function):
        x = ndl.Tensor(A)
        out = apply(x)
        out.backward(np.resize(B, out.shape))
        found.append((out.numpy(), x.grad.numpy()))
    for mine, theirs in zip(*found):
        assert mine.shape == theirs.shape and np.array_equal(mine, theirs)


SUBCLASSED = {
    ops.BroadcastTo: (2, 3, 3),
    ops.SumTo: (3,),
    ops.Reshape: (9,),
    ops.Transpose: (0, 1),
    ops.Permute: (1, 0),
    ops.Flip: (0,),
    ops.Max: (0,),
    ops.Min: (0,),
    ops.Summation: (0,),
    ops.Pad: ((0, 1), (1, 0)),
    ops.GetItem: (0,),
    ops.AddScalar: 2.0,
    ops.PowerScalar: 2.0,
    ops.Cast: "float32",
    ops.LogSumExp: (0,),
}


@pytest.mark.parametrize("op", SUBCLASSED, ids=lambda op: op.__name__)
def test_a_subclass_of_an_op_is_an_op_of_its_own(op):
    class Loud(op):
        """Twice what the op computes."""

        def compute(self, *arrays):
            return super().compute(*arrays) * 2

    x = ndl.Tensor(A)
    y = Loud(SUBCLASSED[op])(x)
    assert type(y.op) is Loud
    assert np.array_equal(y.numpy(), op(SUBCLASSED[op])(x).numpy() * 2)


@pytest.mark.parametrize("op", [ops.Reshape((3, 3)), ops.BroadcastTo((3, 3)), ops.SumTo((3, 3)), ops.Cast("float64")])
def test_an_op_that_is_applied_by_hand_makes_a_node_where_nothing_changes_too(op):
    assert type(op(ndl.Tensor(A)).op) is type(op)
