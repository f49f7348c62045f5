"""The gradient checker: right gradients pass, every broken one is caught and named, and nothing else happens."""

import math

import broken_gradients
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import needle as ndl
from needle import ops
from needle.gradcheck import GradientError, function, gradcheck, gradgradcheck
from needle.gradcheck.differences import Tolerance, slope

pytestmark = pytest.mark.cpu_only("the ops that it checks the checker with are written with NumPy")

RNG = np.random.default_rng(3)


def normal(*shape):
    return RNG.standard_normal(shape)


# ------------------------------------------------------------------------------------------------ broken gradients


@pytest.mark.parametrize("mistake", broken_gradients.MISTAKES, ids=lambda m: m.op)
def test_a_broken_gradient_is_caught_and_its_mistake_named(mistake):
    if mistake.order == 2:
        assert gradcheck(mistake.fn, mistake.inputs)
    with pytest.raises(GradientError) as caught:
        (gradcheck if mistake.order == 1 else gradgradcheck)(mistake.fn, mistake.inputs)
    error = caught.value
    assert mistake.hint in error.hint
    assert error.hint in str(error)
    assert mistake.op in error.op
    assert error.op in str(error).partition(":")[0]
    assert error.input == mistake.input


@pytest.mark.parametrize("seed", range(5))
def test_a_broken_gradient_is_caught_for_every_seed(seed):
    for mistake in broken_gradients.MISTAKES:
        with pytest.raises(GradientError):
            (gradcheck if mistake.order == 1 else gradgradcheck)(mistake.fn, mistake.inputs, seed=seed)


def test_a_broken_op_is_named_inside_a_larger_function():
    broken = broken_gradients.TransposedMatMul()

    def network(x, w):
        return ops.tanh(broken(ops.exp(x), w) + 1).sum()

    with pytest.raises(GradientError, match=r"^TransposedMatMul: the gradient of input 1 .*transposed") as caught:
        gradcheck(network, [normal(3, 3), normal(3, 3)])
    assert "found in network" in str(caught.value)


def test_a_misshapen_gradient_is_named_inside_a_larger_function():
    broken = broken_gradients.BroadcastNotUndone()
    with pytest.raises(GradientError, match=r"^BroadcastNotUndone: .*missing a sum over axis 0"):
        gradcheck(lambda a, b: ops.exp(broken(ops.tanh(a), b)).sum(), [normal(1, 3), normal(4, 3)])


def test_a_tuple_op_is_checked_and_named():
    class Halves(ndl.TensorTupleOp):
        def compute(self, a):
            return a[:2], a[2:]

        def gradient(self, out_grad, node):
            return ops.concatenate([out_grad[1], out_grad[0]])

    with pytest.raises(GradientError, match=r"^Halves: the gradient of input 0 is wrong: .*permuted"):
        gradcheck(Halves(), normal(4))


def test_an_engine_that_overwrites_instead_of_adding_is_caught(monkeypatch):
    def overwriting(outputs, inputs, out_grads, *args, **kwargs):
        if not (isinstance(outputs[0].op, ops.EWiseAdd) and len(inputs) == 1):  # an op alone
            return ndl.grad(outputs, inputs, out_grads, *args, **kwargs)
        return tuple([v * (1 - ops.tanh(x) ** 2) for v, x in zip(out_grads, inputs)])

    monkeypatch.setattr(function, "grad", overwriting)
    with pytest.raises(GradientError, match=r"not all 2 uses of the input are counted: `=` for `\+=`"):
        gradcheck(lambda x: ops.exp(x) + ops.tanh(x), normal(3))


def test_the_text_has_the_worst_index_and_both_values():
    class Wrong(ndl.TensorOp):
        def compute(self, a):
            return 3.0 * a

        def gradient(self, out_grad, node):
            return out_grad * np.array([3.0, 3.0, 5.0])

    with pytest.raises(GradientError) as caught:
        gradcheck(Wrong(), np.zeros(3))
    assert caught.value.index == (2,)
    line = str(caught.value).splitlines()[1]
    found, expected = (float(part.split()[-1].rstrip(",")) for part in line.split(";")[0].split(", by "))
    assert math.isclose(found / expected, 5 / 3, rel_tol=1e-6)
    assert line.endswith("1 of 3 elements differ")


def test_a_wrong_element_among_thousands_is_found():
    class OneWrong(ndl.TensorOp):
        def compute(self, a):
            return a * 2

        def gradient(self, out_grad, node):
            factors = np.full(node.shape, 2.0)
            factors[13, 17] = 2.001
            return out_grad * factors

    with pytest.raises(GradientError) as caught:
        gradcheck(OneWrong(), normal(40, 50))
    assert caught.value.index == (13, 17)


def test_a_jacobian_too_large_to_measure_is_sampled():
    with pytest.raises(GradientError, match="factor of 2"):
        gradcheck(broken_gradients.FactorOfTwo(), normal(30, 60))


# ------------------------------------------------------------------------------------------------- right gradients


@pytest.mark.parametrize(
    "fn, inputs",
    [
        (lambda a, b: ops.tanh(a @ b).sum(), [normal(3, 4), normal(4, 2)]),
        (lambda a: (ops.exp(a), ops.sigmoid(a).sum(0)), [normal(2, 3)]),
        (lambda a: ops.split(a, 1), [normal(2, 3)]),
        (lambda a: ops.stack([a, a * a], 1), [normal(2, 3)]),
        (lambda a: a, [normal(2)]),
        (lambda a, i: a[i], [normal(4), np.array([0, 0, 3])]),
        (lambda a: (a, a > 0), [normal(4)]),
        (lambda a: a * 1e-9, [normal(4)]),
        (lambda a: a * 1e9, [normal(4)]),
        (lambda a: ops.exp(a), [np.array([-30.0, 0.0, 30.0])]),
        (lambda a: ops.log(a), [np.array([1e-2, 1.0, 1e6])]),
        (lambda a: a - a, [normal(3)]),
    ],
)
def test_right_gradients_pass_at_first_and_second_order(fn, inputs):
    assert gradcheck(fn, inputs) is True
    assert gradgradcheck(fn, inputs) is True


@given(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
def test_any_shape_is_checked(shape):
    x = normal(*shape)
    assert gradcheck(lambda a: a * ops.tanh(a), x)
    assert gradgradcheck(lambda a: a * ops.tanh(a), x)


@pytest.mark.parametrize("view", [np.transpose, lambda a: a[::-1], lambda a: a[:, ::2], np.asfortranarray])
def test_the_gradient_is_taken_at_the_very_array_with_its_strides(view):
    array = view(normal(4, 4))
    seen = []

    class Look(ndl.TensorOp):
        def compute(self, a):
            seen.append(a.strides)
            return a * a

        def gradient(self, out_grad, node):
            return 2 * out_grad * node.inputs[0]

    assert gradcheck(Look(), ndl.Tensor.make_const(array, requires_grad=True))
    assert seen[0] == array.strides


def test_a_constant_tensor_is_not_checked():
    wrong = broken_gradients.TransposedMatMul()  # right in its first input
    a, b = ndl.Tensor(normal(3, 3)), ndl.Tensor(normal(3, 3), requires_grad=False)
    assert gradcheck(wrong, [a, b])


def test_a_function_that_does_not_depend_on_its_input_has_zero_gradient():
    assert gradcheck(lambda a: ndl.Tensor([1.0]), normal(3))
    assert gradgradcheck(lambda a: ndl.Tensor([1.0]), normal(3))


def test_it_works_within_no_grad():
    with ndl.no_grad():
        assert gradcheck(ops.tanh, normal(3))
        assert gradgradcheck(ops.tanh, normal(3))


def test_third_order_is_the_check_of_a_gradient_of_a_gradient():
    def gradient(a):
        with ndl.enable_grad():
            a = a if a.requires_grad else ndl.Tensor.make_const(a, requires_grad=True)
            return ndl.grad((a**4).sum(), a)

    assert gradgradcheck(gradient, normal(3))


# ------------------------------------------------------------------------------------------------------------ kinks


@pytest.mark.parametrize(
    "fn", [ops.relu, ops.abs, lambda a: ops.maximum(a, 0.0), lambda a: ops.maximum(a, -a), ops.max]
)
@pytest.mark.parametrize("distance", [0.0, 1e-4, -3e-4, 1e-7, 1e-3])
def test_kinks_at_the_point_and_near_it_are_stepped_around(fn, distance):
    assert gradcheck(fn, np.array([distance, 1.0, 0.0, -2.0]))


def test_ties_of_a_maximum_are_stepped_around():
    assert gradcheck(ops.max, np.ones((2, 2)))


@pytest.mark.parametrize("distance", [0.0, 2e-4])
def test_a_wrong_gradient_beside_a_kink_is_still_caught(distance):
    class WrongReLU(ndl.TensorOp):
        def compute(self, a):
            return np.maximum(a, 0)

        def gradient(self, out_grad, node):
            return out_grad * (node.inputs[0] > -1)

    with pytest.raises(GradientError, match=r"^WrongReLU: "):
        gradcheck(WrongReLU(), np.array([distance, 1.0, -0.5]))


@given(st.floats(-1.5e-3, 1.5e-3))
def test_a_slope_is_measured_right_or_not_at_all(distance):
    """|x − d| at 0 has the slope −sign(d); within the steps of the measurement there is none."""
    allowed = Tolerance(1e-7, 1e-9)
    found = slope(lambda point: np.abs(point[0] - distance), [np.zeros(1)], [np.ones(1)], np.ones(1), allowed)
    if found is not None:
        assert abs(found.derivative[0] + np.sign(distance)) <= found.tolerance
    else:
        assert abs(distance) <= 1e-5


@pytest.mark.parametrize(
    "f, derivative",
    [
        (np.sin, math.cos(1)),
        (np.exp, math.e),
        (lambda x: x**7, 7.0),
        (np.sqrt, 0.5),
        (lambda x: x + 1e6, 1.0),
    ],
)
def test_a_slope_is_measured_to_nine_digits(f, derivative):
    found = slope(lambda point: f(point[0]), [np.ones(1)], [np.ones(1)], np.ones(1), Tolerance(1e-7, 1e-9))
    assert abs(found.derivative[0] - derivative) <= max(1e-9, found.tolerance)


def test_a_function_with_a_jump_in_every_direction_is_an_error():
    class Noise(ndl.TensorOp):
        """A hash of the bits: nowhere continuous"""

        def compute(self, a):
            return np.sin(1e15 * a)

        def gradient(self, out_grad, node):
            return out_grad

    with pytest.raises(ValueError, match="a kink or a jump in every direction"):
        gradcheck(Noise(), normal(2))


# ------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_narrow_floats_are_refused_with_the_reason(check, dtype):
    with pytest.raises(
        ValueError, match=f"^{check.__name__}: input 1 is {dtype}, float64 is needed: .*half of the digits"
    ):
        check(ops.add, [normal(2), normal(2).astype(dtype)])


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_float32_outputs_are_refused(check):
    with pytest.raises(ValueError, match="gives float32, float64 is needed"):
        check(lambda a: a.astype("float32"), normal(2))


@pytest.mark.parametrize("inputs", [[], [np.arange(3)], [ndl.Tensor([1.0], requires_grad=False)]])
def test_nothing_to_check_is_an_error(inputs):
    with pytest.raises(ValueError, match="no input to check"):
        gradcheck(lambda *tensors: ndl.Tensor([1.0]), inputs)


def test_random_functions_are_refused():
    with pytest.raises(ValueError, match="gives other values when called again"):
        gradcheck(lambda a: a * np.random.rand(), normal(2))


@pytest.mark.filterwarnings("ignore:invalid value")
def test_values_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="not finite at these inputs"):
        gradcheck(ops.log, np.array([-1.0, 1.0]))


def test_functions_must_give_tensors():
    with pytest.raises(TypeError, match="must give tensors, got float"):
        gradcheck(lambda a: 1.0, normal(2))


def test_at_least_one_direction_is_needed():
    with pytest.raises(ValueError, match="at least one direction"):
        gradcheck(ops.tanh, normal(2), directions=0)


# ------------------------------------------------------------------------------------------------- nothing else happens


def test_a_gradient_error_is_a_failed_assertion_and_no_bad_argument():
    assert issubclass(GradientError, AssertionError)
    assert not issubclass(GradientError, ValueError)


def test_numpys_global_generator_is_left_alone():
    before = np.random.get_state()[1].copy()
    gradcheck(ops.tanh, normal(3))
    gradgradcheck(ops.tanh, normal(3))
    assert np.array_equal(np.random.get_state()[1], before)


def test_the_same_seed_sees_the_same_cotangents_and_another_seed_others():
    def seen(seed):
        values = []

        class Spy(ndl.TensorOp):
            def compute(self, a):
                return a * 1.0

            def gradient(self, out_grad, node):
                values.append(out_grad.numpy().copy())
                return out_grad

        gradcheck(Spy(), np.ones(3), seed=seed)
        return np.stack(values)

    assert np.array_equal(seen(0), seen(0))
    assert not np.array_equal(seen(0), seen(1))


def test_inputs_are_left_as_they_were():
    x = ndl.Tensor(normal(3))
    x.grad = marker = ndl.Tensor([1.0])
    array, values = x.cached_data, x.numpy().copy()
    gradcheck(ops.relu, x)
    gradgradcheck(ops.tanh, x)
    assert x.cached_data is array
    assert np.array_equal(array, values)
    assert x.grad is marker
