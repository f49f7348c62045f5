"""Each planted fault is caught, the report names its class and line, and the right version passes."""

import inspect

import numpy as np
import planted_faults
import pytest

import needle as ndl
from needle.memory import GrowthError, held_by, node_cost, recorded_nodes


def faulty_line(cls):
    """``file:line`` of the line in the source of `cls` that is marked as the fault."""
    lines, first = inspect.getsourcelines(cls)
    (marked,) = [first + i for i, line in enumerate(lines) if line.rstrip().endswith(planted_faults.MARK)]
    return f"planted_faults.py:{marked}"


# The task, and the class that has the faulty line.
GROWING = {
    "AccumulatedLoss": "AccumulatedLoss",
    "LossList": "LossList",
    "CarriedState": "CarriedState",
    "CachedClosure": "CachedClosure",
    "GlobalNodeList": "GlobalNodeList",
    "StatisticsWithHistory": "HistoryNorm",
    "KeptMasks": "MaskKeepingDropout",
    "GradientsOfIntermediates": "GradientKeepingLinear",
    "MomentumWithHistory": "HistoryMomentum",
    "MomentsWithHistory": "HistoryAdam",
    "CycleInContext": "ContextExp",
}


@pytest.fixture(autouse=True)
def forget_nodes():
    yield
    planted_faults.NODES.clear()


@pytest.mark.parametrize(("task", "culprit"), GROWING.items(), ids=GROWING)
def test_what_is_left_behind_is_caught_and_named(no_growth, task, culprit):
    step = getattr(planted_faults, task)().step
    with pytest.raises(GrowthError) as caught:
        no_growth(step, steps=5)
    report = str(caught.value)
    assert culprit in report
    assert faulty_line(getattr(planted_faults, culprit)) in report
    assert "what helps:" in report


@pytest.mark.parametrize("task", GROWING)
def test_the_right_version_leaves_nothing_behind(no_growth, task):
    no_growth(getattr(planted_faults, f"{task}Right")().step, steps=5)


def check_step_records_nothing(task):
    """Raise with the op, class and line of every node that an optimizer's step records."""
    task.loss().backward(create_graph=False)
    nodes = recorded_nodes(task.optimizer.step)
    if nodes:
        lines = "\n".join(f"  {op}  {place}" for op, place in nodes)
        raise ValueError(f"{type(task.optimizer).__name__}.step records {len(nodes)} nodes of a graph:\n{lines}")


def test_weight_decay_that_builds_a_graph_is_caught_and_named():
    with pytest.raises(ValueError, match=r"GraphDecaySGD\.step records 4 nodes") as caught:
        check_step_records_nothing(planted_faults.DecayWithGraph())
    assert faulty_line(planted_faults.GraphDecaySGD) in str(caught.value)


def test_weight_decay_on_data_records_nothing():
    check_step_records_nothing(planted_faults.DecayWithGraphRight())


def check_state_has_the_parameters_dtype(task):
    """Raise with the name of every array of the optimizer's state that is wider than the parameters."""
    task.step()
    (dtype,) = {str(p.dtype) for p in task.optimizer.params}
    wide = [h for h in held_by(task.optimizer) if h.dtype != dtype and h.shape]
    if wide:
        lines = "\n".join(f"  {holding}" for holding in wide)
        name = type(task.optimizer).__name__
        raise ValueError(
            f"{name} keeps state of another dtype than the {dtype} of its parameters:\n{lines}\n"
            f"written by {writer(type(task.optimizer), wide[0])}"
        )


def writer(cls, holding):
    from needle.memory.naming import writes_to

    return writes_to(cls, holding.name.split(".")[1].split("[")[0])


def test_float64_moments_are_caught_and_named():
    with pytest.raises(ValueError, match=r"WideMomentum.u\[0\]: float64 \(3, 2\), 48 bytes") as caught:
        check_state_has_the_parameters_dtype(planted_faults.WideMoments())
    assert faulty_line(planted_faults.WideMomentum) in str(caught.value)


def test_moments_of_the_parameters_dtype_pass():
    check_state_has_the_parameters_dtype(planted_faults.WideMomentsRight())


def check_gradient_makes_one_node(op, x):
    """Raise with the class and the lines if the gradient of a node of `op` makes more than one node."""
    cost = node_cost(op, x)
    (name,) = cost.forward
    made = sum(cost.backward[name].values())
    if made > 1:
        lines = "\n".join(f"  {number} × {place}" for place, number in cost.backward_lines[name].items())
        raise ValueError(f"{name}.gradient makes {made} nodes where 1 is enough:\n{lines}")


def test_a_looped_broadcast_gradient_is_caught_and_named():
    x = ndl.Tensor(np.random.randn(1, 3, 1))
    with pytest.raises(ValueError, match=r"LoopedBroadcastTo\.gradient makes 6 nodes where 1 is enough") as caught:
        check_gradient_makes_one_node(planted_faults.LoopedBroadcastTo((2, 2, 4, 3, 5)), x)
    assert faulty_line(planted_faults.LoopedBroadcastTo) in str(caught.value)


@pytest.mark.parametrize("shape", [(4, 3, 1), (1, 3, 5), (4, 3, 5), (2, 1, 3, 1), (6, 2, 4, 3, 5)])
def test_needles_broadcast_gradient_is_one_node_whatever_the_shapes(shape):
    check_gradient_makes_one_node(ndl.ops.BroadcastTo(shape), ndl.Tensor(np.random.randn(1, 3, 1)))


def test_the_looped_gradient_has_the_right_values_so_that_no_other_test_would_see_it():
    x = ndl.Tensor(np.random.randn(1, 3, 1))
    weights = np.random.randn(2, 4, 3, 5)
    grads = []
    for op in (planted_faults.LoopedBroadcastTo, ndl.ops.BroadcastTo):
        (op((2, 4, 3, 5))(x) * ndl.Tensor(weights)).sum().backward()
        grads.append(x.grad.numpy())
    np.testing.assert_allclose(grads[0], grads[1], rtol=1e-12)
