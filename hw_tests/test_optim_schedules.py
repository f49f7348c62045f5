"""Learning-rate schedules: the formulas, what follows a warm-up, and going on from a saved state."""

import json
import math

import pytest

import needle as ndl
from needle.optim import SGD, CosineLR, Optimizer, Schedule, StepLR, WarmupLR


def optimizer(lr=0.8):
    return SGD([ndl.Tensor([0.0])], lr=lr)


def rates(schedule, steps):
    found = [schedule.optimizer.lr]
    for _ in range(steps):
        schedule.step()
        found.append(schedule.optimizer.lr)
    return found


def test_a_step_schedule_multiplies_at_every_step_size():
    assert rates(StepLR(optimizer(), step_size=3, gamma=0.5), 7) == [0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.2, 0.2]


def test_a_cosine_falls_from_the_base_to_the_minimum_and_stays_there():
    found = rates(CosineLR(optimizer(1.0), steps=4, min_lr=0.2), 6)
    halves = [1, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2, 0, 0, 0]
    assert found == pytest.approx([0.2 + 0.8 * h for h in halves], abs=1e-15)


def test_pytorch_has_the_same_cosine_and_step_rates(torch):
    schedulers = torch.optim.lr_scheduler
    for ours, theirs in [
        (lambda o: CosineLR(o, steps=5, min_lr=0.1), lambda o: schedulers.CosineAnnealingLR(o, T_max=5, eta_min=0.1)),
        (lambda o: StepLR(o, step_size=2, gamma=0.3), lambda o: schedulers.StepLR(o, step_size=2, gamma=0.3)),
    ]:
        reference = torch.optim.SGD([torch.zeros(1)], lr=0.8)
        scheduler, expected = theirs(reference), [0.8]
        for _ in range(5):
            reference.step()
            scheduler.step()
            expected.append(reference.param_groups[0]["lr"])
        assert rates(ours(optimizer()), 5) == pytest.approx(expected, rel=1e-12)


def test_a_warm_up_rises_linearly_and_ends_at_the_base():
    assert rates(WarmupLR(optimizer(1.0), steps=4), 5) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_what_follows_a_warm_up_begins_at_its_own_time_zero():
    o = optimizer(1.0)
    assert rates(WarmupLR(o, steps=2, after=StepLR(o, step_size=1, gamma=0.5)), 4) == [0.5, 1.0, 1.0, 0.5, 0.25]


def test_the_next_step_of_the_optimizer_uses_the_rate():
    w = ndl.Tensor([0.0])
    w.grad = ndl.Tensor([1.0])
    o = SGD([w], lr=1.0)
    schedule = StepLR(o, step_size=1, gamma=0.5)
    o.step()
    schedule.step()
    o.step()
    assert w.numpy().tolist() == [-1.5]


MAKERS = {
    "step": lambda o: StepLR(o, 2),
    "cosine": lambda o: CosineLR(o, 7),
    "warm-up": lambda o: WarmupLR(o, 3, after=CosineLR(o, 7)),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_schedule_goes_on_from_a_saved_state(make):
    schedule, other = make(optimizer()), make(optimizer())
    rates(schedule, 4)
    other.load_state_dict(json.loads(json.dumps(schedule.state_dict())))
    assert rates(other, 4) == rates(schedule, 4)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (lambda: CosineLR(optimizer(), 3).state_dict(), "StepLR: cannot load the state of 'CosineLR'"),
        (lambda: StepLR(optimizer(), 3).state_dict(), "other settings: step_size 2 here and 3 there"),
        (lambda: {**StepLR(optimizer(), 2).state_dict(), "t": 1.5}, "'t' is the number of steps made, got 1.5"),
    ],
)
def test_a_state_that_does_not_fit_is_named_and_changes_nothing(state, text):
    schedule = StepLR(optimizer(), 2)
    with pytest.raises(ValueError, match=text):
        schedule.load_state_dict(state())
    assert schedule.t == 0 and schedule.optimizer.lr == 0.8


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: StepLR(Optimizer([ndl.Tensor([1.0])]), 1), TypeError, "a learning rate lr is needed, got Optimizer"),
        (lambda: StepLR(optimizer(), 0), ValueError, "step_size is at least 1, got 0"),
        (lambda: CosineLR(optimizer(), 2.5), TypeError, "steps is a whole number, got 2.5"),
        (lambda: CosineLR(optimizer(), 2, min_lr=-1), ValueError, "min_lr is a finite number of at least 0"),
        (lambda: WarmupLR(optimizer(), 2, after=StepLR(optimizer(), 1)), ValueError, "belongs to another optimizer"),
        (lambda: WarmupLR(optimizer(), 2, after=3), TypeError, "WarmupLR: what follows is a Schedule, .*, got int"),
        (lambda: Schedule(optimizer()).step(), NotImplementedError, "Schedule has no rate"),
    ],
)
def test_wrong_use_is_an_error(make, error, text):
    with pytest.raises(error, match=text):
        make()
