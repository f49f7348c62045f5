"""Where tensors were made: the user's line, and what backward was busy with."""

import sys

import pytest
from shared import line_of

import needle as ndl
from needle import memory
from needle.memory import creation, live_tensors, origin, track


def test_the_line_is_the_users_and_not_the_librarys():
    def build():
        layer = ndl.nn.Linear(2, 3)
        x = ndl.Tensor([[1.0, 2.0]])
        return layer, x, layer(x)

    with track():
        layer, x, y = build()
    assert origin(layer.weight).line == line_of(build, "ndl.nn.Linear")
    assert origin(x).line == line_of(build, "ndl.Tensor")
    assert origin(y).line == line_of(build, "layer(x)")
    assert origin(y).function.endswith("build") and origin(y).filename == __file__
    assert str(origin(y)).endswith("build: return layer, x, layer(x)")


def test_a_tensor_of_backward_knows_the_op_and_the_line_of_the_forward_pass():
    def build():
        x = ndl.Tensor([1.0, 2.0])
        y = x.exp()
        y.sum().backward()
        return x

    with track():
        x = build()
    made = origin(x.grad)
    assert made.backward_of == "Exp"
    assert made.line == line_of(build, ".backward()")
    assert made.forward.line == line_of(build, "x.exp()")


def test_a_tensor_of_a_users_gradient_rule_has_the_rules_line():
    class Cube(ndl.TensorOp):
        def compute(self, a):
            return a**3

        def gradient(self, out_grad, node):
            (a,) = node.inputs
            return out_grad * 3 * a**2

    x = ndl.Tensor([1.0, 2.0])
    with track():
        Cube()(x).sum().backward()
    assert origin(x.grad).line == line_of(Cube, "out_grad * 3")
    assert origin(x.grad).backward_of == "Cube"
    assert origin(x.grad).function.endswith("Cube.gradient")


def test_what_sums_gradients_is_called_so():
    x = ndl.Tensor([1.0, 2.0])
    with track():
        (x.exp() + x.exp()).sum().backward()
    assert origin(x.grad).backward_of == "a sum of gradients"


def test_nothing_is_remembered_outside():
    before = ndl.Tensor([1.0])
    with track():
        within = before * 2
    after = before * 3
    assert origin(before) is None and origin(after) is None
    assert origin(within) is not None


def test_the_engine_is_as_it_was_before_and_after():
    init = ndl.Tensor.__init__
    with track():
        assert ndl.autograd._new is not object.__new__
        with track():
            pass
        assert ndl.autograd._new is not object.__new__
    assert ndl.autograd._new is object.__new__
    assert ndl.Tensor.__init__ is init


def test_the_engine_is_as_it_was_after_an_error():
    with pytest.raises(KeyError), track():
        raise KeyError
    assert ndl.autograd._new is object.__new__


def test_tracking_keeps_no_tensor_alive():
    before = live_tensors().count
    with track():
        x = ndl.Tensor([1.0])
        y = (x * x).sum()
        y.backward()
        del x, y
    assert live_tensors().count == before


def test_what_was_remembered_of_tensors_that_are_gone_is_forgotten_in_time():
    x = ndl.Tensor([1.0])
    with track():
        for _ in range(5000):
            x * 2
    assert len(creation._origins) <= 3000


def test_a_failing_constructor_leaves_nothing_behind():
    before = live_tensors().count
    with track(), pytest.raises(TypeError):
        ndl.Tensor("no numbers")
    assert live_tensors().count == before


def test_reading_variables_of_a_function_keeps_none_of_their_values():
    def running():
        x = ndl.Tensor([1.0])
        found = creation.locals_of(sys._getframe())
        assert found.pop("x") is x
        before = live_tensors().count
        del x
        assert live_tensors().count == before - 1

    running()


def test_a_dictionary_that_somebody_asked_locals_for_is_left_alone():
    def running():
        x = 1
        mine = locals()
        creation.locals_of(sys._getframe())
        assert mine["x"] == x

    running()


def test_importing_needle_imports_no_tools():
    import subprocess

    code = "import sys, needle; print([m for m in sys.modules if m.startswith('needle.memory')])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
    assert memory.track is track
