"""How many nodes the gradient of each op makes, counted on one application of each.

``python hw_tests/memory_check/op_table.py`` writes the table that ``docs/gradient_nodes.md`` holds. It is what each op
is held to: a rule that makes more nodes than stand there fails a test, and one that makes fewer changes the table.
"""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Callable

import numpy as np

import needle as ndl
from needle import ops
from needle.memory import node_cost

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "gradient_nodes.md"

Example = tuple[Callable, list[tuple[int, ...]]]

#: For each op a function that applies it, and the shapes of the tensors that it is applied to. All require grad.
EXAMPLES: dict[type[ndl.Op], Example] = {
    ops.EWiseAdd: (ops.add, [(3, 4), (3, 4)]),
    ops.AddScalar: (lambda a: a + 2.0, [(3, 4)]),
    ops.EWiseMul: (ops.multiply, [(3, 4), (3, 4)]),
    ops.MulScalar: (lambda a: a * 2.0, [(3, 4)]),
    ops.EWiseDiv: (ops.divide, [(3, 4), (3, 4)]),
    ops.DivScalar: (lambda a: a / 2.0, [(3, 4)]),
    ops.ScalarDiv: (lambda a: 2.0 / a, [(3, 4)]),
    ops.EWisePow: (ops.power, [(3, 4), (3, 4)]),
    ops.PowerScalar: (lambda a: a**3.0, [(3, 4)]),
    ops.ScalarPower: (lambda a: 2.0**a, [(3, 4)]),
    ops.Negate: (ops.negate, [(3, 4)]),
    ops.Exp: (ops.exp, [(3, 4)]),
    ops.Log: (ops.log, [(3, 4)]),
    ops.Sqrt: (ops.sqrt, [(3, 4)]),
    ops.Tanh: (ops.tanh, [(3, 4)]),
    ops.Sigmoid: (ops.sigmoid, [(3, 4)]),
    ops.NormalCDF: (ops.normal_cdf, [(3, 4)]),
    ops.ReLU: (ops.relu, [(3, 4)]),
    ops.BiasReLU: (ops.bias_relu, [(3, 4), (4,)]),
    ops.Abs: (ops.abs, [(3, 4)]),
    ops.Maximum: (ops.maximum, [(3, 4), (3, 4)]),
    ops.Minimum: (ops.minimum, [(3, 4), (3, 4)]),
    ops.MaximumScalar: (lambda a: ops.maximum(a, 1.0), [(3, 4)]),
    ops.MinimumScalar: (lambda a: ops.minimum(a, 1.0), [(3, 4)]),
    ops.Where: (lambda a, b: ops.where(np.arange(4) > 1, a, b), [(3, 4), (3, 4)]),
    ops.Cast: (lambda a: a.astype("float32"), [(3, 4)]),
    ops.To: (ops.To(ndl.cpu()), [(3, 4)]),
    ops.Summation: (lambda a: ops.summation(a, 1), [(3, 4)]),
    ops.Max: (lambda a: ops.max(a, 1), [(3, 4)]),
    ops.Min: (lambda a: ops.min(a, 1), [(3, 4)]),
    ops.LogSumExp: (lambda a: ops.logsumexp(a, 1), [(3, 4)]),
    ops.LogSoftmax: (ops.logsoftmax, [(3, 4)]),
    ops.Softmax: (ops.softmax, [(3, 4)]),
    ops.CrossEntropy: (lambda a: ops.cross_entropy(a, np.array([0, 1, 2])), [(3, 4)]),
    ops.BroadcastTo: (lambda a: ops.broadcast_to(a, (5, 3, 4)), [(3, 1)]),
    ops.SumTo: (lambda a: ops.sum_to(a, (3, 1)), [(5, 3, 4)]),
    ops.Reshape: (lambda a: ops.reshape(a, (2, 6)), [(3, 4)]),
    ops.Transpose: (ops.transpose, [(3, 4)]),
    ops.Permute: (lambda a: ops.permute(a, (2, 0, 1)), [(3, 4, 2)]),
    ops.Flip: (lambda a: ops.flip(a, 0), [(3, 4)]),
    ops.Contiguous: (lambda a: ops.contiguous(ops.transpose(a)), [(3, 4)]),
    ops.Concatenate: (lambda a, b: ops.concatenate([a, b], 1), [(3, 4), (3, 2)]),
    ops.Stack: (lambda a, b: ops.stack([a, b], 1), [(3, 4), (3, 4)]),
    ops.Split: (lambda a: ops.split(a, 0)[1], [(3, 4)]),
    ops.MakeTensorTuple: (lambda a, b: ops.make_tuple(a, b)[0], [(3, 4), (3, 4)]),
    ops.FusedAddScalars: (lambda a: ops.fused_add_scalars(a, 1.0, 2.0)[0], [(3, 4)]),
    ops.GetItem: (lambda a: a[1:, 2], [(3, 4)]),
    ops.ScatterAdd: (ops.ScatterAdd((3, 4), (slice(1, None), 2)), [(2,)]),
    ops.TakeRows: (lambda a: ops.embedding(a, np.array([1, 1, 2])), [(3, 4)]),
    ops.AddRows: (ops.AddRows(np.array([1, 1, 2]), 5), [(3, 4)]),
    ops.Pad: (lambda a: ops.pad(a, ((1, 1), (0, 2))), [(3, 4)]),
    ops.Dilate: (lambda a: ops.dilate(a, (0, 1), 1), [(3, 4)]),
    ops.UnDilate: (lambda a: ops.undilate(a, (0, 1), 1), [(4, 4)]),
    ops.Windows: (ops.Windows(2, 2), [(4, 4)]),
    ops.SumWindows: (ops.SumWindows(2, 2, (4, 4)), [(2, 2, 2, 2)]),
    ops.MatMul: (ops.matmul, [(3, 4), (4, 5)]),
    ops.EinSum: (lambda a, b: ops.einsum("bij,bjk->bik", a, b), [(2, 3, 4), (2, 4, 5)]),
    ops.Linear: (ops.linear, [(3, 4), (4, 5), (1, 5)]),
    ops.Conv: (ops.conv, [(2, 5, 5, 3), (3, 3, 3, 4)]),
    ops.ConvImage: (ops.ConvImage(1, 1, (2, 5, 5, 3)), [(2, 5, 5, 4), (3, 3, 3, 4)]),
    ops.ConvKernel: (ops.ConvKernel(1, 1, (3, 3, 3, 4)), [(2, 5, 5, 3), (2, 5, 5, 4)]),
    ops.BatchNorm: (ops.batch_norm, [(3, 4), (4,), (4,)]),
    ops.LayerNorm: (ops.layer_norm, [(3, 4), (4,), (4,)]),
    ops.RNN: (ops.rnn, [(5, 2, 3), (2, 4), (3, 4), (4, 4), (4,)]),
    ops.LSTM: (lambda *tensors: ops.lstm(*tensors)[0], [(5, 2, 3), (2, 4), (2, 4), (3, 16), (4, 16), (16,)]),
    ops.GRU: (ops.gru, [(5, 2, 3), (2, 4), (3, 12), (4, 12), (12,), (12,)]),
    ops.Attention: (lambda q, k, v: ops.attention(q, k, v)[0], [(2, 2, 3, 4)] * 3),
    ops.SelfAttention: (lambda qkv: ops.self_attention(qkv)[0], [(2, 5, 3, 2, 4)]),
    ops.AdaptiveBlur: (lambda x, r: ops.adaptive_blur(x, r), [(9, 2), (9, 1)]),
}


def exported() -> set[type[ndl.Op]]:
    """Every op class of `needle.ops`."""
    found = [getattr(ops, name) for name in ops.__all__]
    return {item for item in found if isinstance(item, type) and issubclass(item, ndl.Op)}


def count(op: type[ndl.Op]) -> Counter:
    """The nodes that the gradient of one node of `op` makes, by op."""
    fn, shapes = EXAMPLES[op]
    rng = np.random.default_rng(0)
    inputs = [ndl.Tensor(rng.uniform(0.5, 1.5, shape)) for shape in shapes]
    cost = node_cost(fn, *inputs)
    if cost.forward[op.__name__] != 1:
        raise ValueError(f"the example of {op.__name__} applies it {cost.forward[op.__name__]} times: {cost.forward}")
    return cost.backward.get(op.__name__, Counter())


def table() -> str:
    """The page's table."""
    lines = ["| op | nodes | of which kinds |", "|---|---|---|"]
    for op in sorted(EXAMPLES, key=lambda op: op.__name__):
        made = count(op)
        kinds = ", ".join(name if n == 1 else f"{n} × {name}" for name, n in sorted(made.items()))
        lines.append(f"| {op.__name__} | {sum(made.values())} | {kinds or '–'} |")
    return "\n".join(lines)


def page() -> str:
    """The whole page."""
    return f"""\
# What a gradient costs in nodes

With `create_graph=True` (the default) a gradient is a value of the graph, and every op that a gradient rule applies
makes a node. This table says how many nodes the gradient of one node of each op makes, all of its inputs requiring
grad. `needle.memory.node_cost` counted them, `hw_tests/memory_check/op_table.py` wrote the page, and a test holds every
op to it.

`BroadcastTo` and `SumTo` make one node whatever the shapes. Where several gradients reach one tensor, one node adds
them up, which belongs to no op and is not counted here. With `create_graph=False` no op makes any.

{table()}
"""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
