"""`no_growth`: exact, whatever was there before; and what its report says."""

import gc

import numpy as np
import pytest
from shared import line_of

import needle as ndl
from needle.memory import GrowthError, no_growth


def place_of(function, text):
    return f"test_memory_growth.py:{line_of(function, text)}"


def weight():
    return ndl.Tensor(np.ones(3))


def clean_step(w):
    loss = (w * w).sum()
    loss.backward(create_graph=False)


def test_a_step_that_leaves_nothing_passes_in_all_three_ways():
    w = weight()
    no_growth(steps=3)(clean_step)(w)
    with no_growth(steps=3) as steps:
        for _ in steps:
            clean_step(w)
    w.grad = None
    with no_growth():
        clean_step(w)
        w.grad = None


def test_the_loop_makes_the_steps_and_those_to_warm_up():
    with no_growth(steps=4, warmup=3) as steps:
        assert list(steps) == [0, 1, 2, 3, 4, 5, 6]


def test_the_decorator_hands_arguments_on():
    seen = []

    @no_growth(steps=2, warmup=1)
    def step(a, b=0):
        seen.append((a, b))

    step(1, b=2)
    assert seen == [(1, 2)] * 3


@pytest.mark.cpu_only("counts the bytes of NumPy's objects")
def test_one_tensor_a_step_is_counted_exactly():
    kept = []
    with pytest.raises(GrowthError) as caught:
        no_growth(steps=7)(lambda: kept.append(ndl.Tensor([1.0, 2.0])))()
    error = caught.value
    assert (error.steps, error.tensors, error.bytes, error.in_cycles) == (7, 7, 7 * 16, 0)
    assert str(error).startswith("7 tensors and 112 bytes were left behind by 7 steps: 1 tensor and 16 bytes a step")


def test_growth_every_third_step_is_seen():
    kept, number = [], 0

    def step():
        nonlocal number
        number += 1
        if number % 3 == 0:
            kept.append(ndl.Tensor([1.0]))

    with pytest.raises(
        GrowthError, match=r"3 tensors and 24 bytes .* 0\.3333333333 tensors and 2\.666666667 bytes a step"
    ):
        no_growth(steps=9, warmup=0)(step)()


def test_what_other_code_left_behind_does_not_matter():
    litter = [ndl.Tensor(np.ones(5)) for _ in range(100)]
    cycle = [ndl.Tensor(np.ones(5))]
    cycle.append(cycle)
    del cycle
    no_growth(steps=3)(clean_step)(weight())
    assert len(litter) == 100


def test_fewer_tensors_than_before_are_no_growth():
    kept = [ndl.Tensor([1.0]) for _ in range(5)]
    with no_growth():
        kept.clear()


def test_a_state_made_in_the_first_steps_is_no_growth():
    state = {}

    def step():
        state.setdefault("m", ndl.Tensor([0.0]))

    no_growth(steps=3, warmup=1)(step)()
    state.clear()
    with pytest.raises(GrowthError, match="1 tensor and 8 bytes were left behind by 3 steps"):
        no_growth(steps=3, warmup=0)(step)()


def test_arrays_outside_of_tensors_are_counted_too():
    class Dropout:
        def __init__(self):
            self.masks = {}

        def step(self):
            self.masks[len(self.masks)] = np.ones(10)

    with pytest.raises(GrowthError) as caught:
        no_growth(steps=5)(Dropout().step)()
    assert (caught.value.tensors, caught.value.bytes) == (0, 400)
    assert "Dropout.masks[" in str(caught.value)
    assert place_of(Dropout, "np.ones(10)") in str(caught.value)


def test_nodes_that_a_graph_holds_without_their_tensors_are_counted_and_their_lines_named():
    class Loss:
        total = 0.0

        def __init__(self):
            self.w = ndl.Tensor(np.ones(5000))

        def step(self):
            shifted = self.w + 1  # no gradient reads this, so that the graph lets its array go
            self.total = self.total + shifted.sum()

    with pytest.raises(GrowthError) as caught:
        no_growth(steps=4)(Loss().step)()
    assert caught.value.tensors == 4 * 3
    assert caught.value.bytes == 4 * 2 * 8
    assert f"1 × AddScalar (5000,) float64  hw_tests/{place_of(Loss, 'self.w + 1')}" in str(caught.value)


def test_the_report_names_the_lines_the_holder_and_the_remedy():
    losses = []

    def step(w):
        losses.append((w * w).sum())

    with pytest.raises(GrowthError) as caught:
        no_growth(steps=3)(step)(weight())
    report = str(caught.value)
    place = place_of(step, "losses.append")
    assert f"  1 × EWiseMul (3,) float64  hw_tests/{place} in " in report
    assert f"  1 × Summation () float64  hw_tests/{place} in " in report
    assert "\n  losses[2] in test_the_report_names" in report
    assert " → Tensor(Summation) → Tensor(EWiseMul)\n" in report
    assert "keep .item(), .numpy() or .detach() of the tensor" in report


def test_what_backward_makes_is_named_with_the_op_that_it_belongs_to():
    grads = []

    def step(w):
        loss = w.exp().sum()
        loss.backward()
        grads.append(w.grad)

    with pytest.raises(GrowthError) as caught:
        no_growth(steps=3)(step)(weight())
    assert "step: loss.backward()  [backward of Exp, hw_tests/" in str(caught.value)


def test_cycles_are_told_from_strong_references():
    def step():
        kept = [ndl.Tensor([1.0])]
        kept.append(kept)

    with pytest.raises(GrowthError) as caught:
        no_growth(steps=4)(step)()
    error = caught.value
    assert (error.tensors, error.bytes, error.in_cycles) == (0, 0, 4)
    assert "4 tensors were left in reference cycles by 4 steps (1 a step)" in str(error)
    assert "only a reference cycle: list[1], which holds Tensor" in str(error)
    no_growth(steps=4, cycles=False)(step)()


def test_the_collector_is_off_in_the_steps_and_on_again_after_an_error():
    states = []

    def step():
        states.append(gc.isenabled())
        if len(states) == 4:
            raise KeyError("the step's own")

    with pytest.raises(KeyError):
        no_growth(steps=5, warmup=2)(step)()
    assert states == [True, True, False, False]
    assert gc.isenabled()
    assert ndl.autograd._new is object.__new__


def test_a_collector_that_was_off_stays_off(collector_off):
    no_growth(steps=2)(clean_step)(weight())
    assert not gc.isenabled()


def test_a_loop_that_is_left_early_is_an_error_and_no_pass():
    with pytest.raises(RuntimeError, match="left before all steps were made"), no_growth(steps=3) as steps:
        for _ in steps:
            break


def test_a_loop_outside_of_the_with_statement_is_an_error():
    with pytest.raises(RuntimeError, match="within its with statement"):
        for _ in no_growth(steps=1):
            pass


@pytest.mark.parametrize("options", [{"steps": 0}, {"steps": 1.5}, {"warmup": -1}, {"steps": True}])
def test_numbers_of_steps_out_of_range_are_errors(options):
    with pytest.raises(ValueError, match=r"no_growth: .* is a whole number of at least"):
        no_growth(**options)
