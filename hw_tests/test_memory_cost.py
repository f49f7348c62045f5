"""What computations cost: nodes, bytes, peaks."""

import numpy as np
import pytest

import needle as ndl
from needle.memory import graph_summary, node_cost, peak, recorded_nodes, track


def test_nodes_are_counted_by_op_forward_and_backward():
    x = ndl.Tensor(np.ones((3, 4)))
    cost = node_cost(lambda x: ndl.exp(-x), x)
    assert cost.forward == {"Exp": 1, "Negate": 1}
    assert cost.backward == {"Exp": {"EWiseMul": 1}, "Negate": {"Negate": 1}}
    assert (cost.forward_nodes, cost.backward_nodes) == (2, 2)
    assert str(cost).splitlines()[1:] == [
        "  1 × Exp: 1 node backward (1 × EWiseMul)",
        "  1 × Negate: 1 node backward (1 × Negate)",
    ]


def test_bytes_are_those_of_new_memory():
    x = ndl.Tensor(np.ones((1, 4)))
    cost = node_cost(lambda x: ndl.broadcast_to(x, (3, 4)) * 2.0, x)
    assert cost.forward_bytes == 96  # the product; what is broadcast is a view
    assert cost.backward_bytes == 96 + 32


def test_sums_of_gradients_are_told_from_the_rules():
    x = ndl.Tensor(np.ones(4))
    cost = node_cost(lambda x: x.exp() + x.exp(), x)
    assert sum(cost.backward["a sum of gradients"].values()) == 1
    assert cost.backward["Exp"] == {"EWiseMul": 2}
    assert "EWiseAdd" not in cost.backward


def test_counting_sets_no_gradient_and_leaves_nothing_behind():
    x = ndl.Tensor(np.ones(4))
    node_cost(lambda x: x * x, x)
    assert x.grad is None


def test_parameters_in_a_module_are_differentiated_if_no_input_is():
    layer = ndl.nn.Linear(3, 2)
    x = ndl.Tensor(np.ones((4, 3), dtype="float32"), requires_grad=False)
    assert node_cost(layer, x).backward_nodes > 0


def test_a_function_without_a_gradient_is_an_error():
    with pytest.raises(ValueError, match="node_cost: fn must return a tensor that requires grad"):
        node_cost(lambda x: x.detach(), ndl.Tensor([1.0]))


def test_recorded_nodes_have_their_lines():
    w = ndl.Tensor([1.0])

    def step():
        return w * 2 + 1

    nodes = recorded_nodes(step)
    assert [op for op, _ in nodes] == ["MulScalar", "AddScalar"]
    assert {place.source for _, place in nodes} == {"return w * 2 + 1"}


def test_what_records_nothing_gives_nothing():
    w = ndl.Tensor([1.0])
    assert recorded_nodes(lambda: w.data * 2) == []


# ----------------------------------------------------------------------------------------------------- graph_summary


def test_a_graph_is_summed_up():
    x = ndl.Tensor(np.ones(100))
    y = x.exp()
    z = y * y + x
    summary = graph_summary(z)
    assert (summary.nodes, summary.leaves, summary.depth) == (3, 1, 3)
    assert summary.by_op == {"Exp": 1, "EWiseMul": 1, "EWiseAdd": 1}
    assert summary.bytes == 4 * 800


def test_arrays_that_no_gradient_reads_are_not_kept():
    x = ndl.Tensor(np.ones(10_000))
    z = ((x + 1) * 3).exp().sum()
    summary = graph_summary(z)
    assert summary.nodes == 4
    assert summary.bytes == 2 * 80_000 + 8  # x itself and the value of exp


def test_the_largest_holders_come_first_with_their_lines():
    with track():
        big = ndl.Tensor(np.ones(1000))
        z = big.sum() * ndl.Tensor([2.0])
    (first, size), *rest = graph_summary(z, top=2).largest
    assert size == 8000 and first.startswith("leaf (1000,) float64") and "big = ndl.Tensor" in first
    assert len(rest) == 1


@pytest.mark.cpu_only("has an array of NumPy in an op")
def test_arrays_that_an_op_holds_are_counted():
    class Scale(ndl.TensorOp):
        reads = ()

        def __init__(self, factor):
            self.factor = factor

        def compute(self, a):
            return a * self.factor

        def gradient(self, out_grad, node):
            return out_grad * self.factor

    x = ndl.Tensor(np.ones(10))
    assert graph_summary(Scale(np.full(10, 2.0))(x)).bytes == 3 * 80


def test_a_deep_graph_does_not_recurse():
    y = ndl.Tensor([1.0])
    for _ in range(20_000):
        y = y * 1.0
    assert graph_summary(y).depth == 20_000


def test_a_graph_that_backward_took_apart_ends_there():
    x = ndl.Tensor([1.0])
    y = x * 2
    y.backward(create_graph=False)
    assert graph_summary(y).nodes == 1


def test_a_leaf_has_an_empty_graph():
    summary = graph_summary(ndl.Tensor([1.0]))
    assert (summary.nodes, summary.leaves, summary.depth) == (0, 1, 0)


# -------------------------------------------------------------------------------------------------------------- peak


def test_the_peak_counts_what_is_alive_at_once():
    x = ndl.Tensor(np.ones(250_000))
    found = peak(lambda: ndl.ops.exp(x) * 2.0)
    assert found.bytes == pytest.approx(2 * 2_000_000, rel=0.01)
    assert found.after == pytest.approx(2 * 2_000_000, rel=0.01)  # the gradient of exp reads its value
    assert found.result.shape == (250_000,)


def test_the_peak_is_not_missed_if_everything_is_freed_again():
    def burst():
        temporary = ndl.Tensor(np.ones(250_000))
        del temporary
        return ndl.Tensor([1.0])

    found = peak(burst)
    assert found.bytes >= 2_000_000
    assert found.after < 100_000


def test_the_tensors_alive_at_the_peak_are_named():
    def compute():
        first = ndl.Tensor(np.ones((500, 500)), requires_grad=False)
        del first
        second = ndl.Tensor(np.ones((800, 500)), requires_grad=False)
        return second * 2

    found = peak(compute)
    assert [text for text, _ in found.alive] == ["Tensor (800, 500) float64", "Tensor (800, 500) float64"]
    assert "2 × Tensor (800, 500) float64" in str(found)


def test_a_running_tracemalloc_goes_on():
    import tracemalloc

    tracemalloc.start()
    try:
        peak(lambda: ndl.Tensor([1.0]))
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


def test_arguments_are_handed_on():
    assert peak(lambda a, b=0: a + b, 2, b=3).result == 5
