"""What a computation and its gradient cost in nodes and bytes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ..autograd import Stub, Tensor, Value, _post_order, grad
from .census import arrays_in, bytes_of, count, op_name, storage
from .creation import Origin, here, listening, origin


class NodeCost:
    """What `node_cost` counted. ``str()`` gives a table.

    Attributes
    ----------
    forward : Counter
        Recorded nodes that the function made, by op.
    backward : dict of str to Counter
        For each op of the forward pass, the nodes that its gradients made, by op. ``"a sum of gradients"`` stands for
        the nodes that add up what reaches one tensor along several paths.
    backward_lines : dict of str to Counter
        For each op of the forward pass, where its gradients made nodes, as `Origin`.
    forward_bytes, backward_bytes : int
        Bytes of those nodes' arrays; memory that a node shares with an input or with another node is counted once, and
        not at all if it is an input's.
    """

    def __init__(self) -> None:
        self.forward: Counter = Counter()
        self.backward: dict[str, Counter] = {}
        self.backward_lines: dict[str, Counter] = {}
        self.forward_bytes = 0
        self.backward_bytes = 0

    @property
    def forward_nodes(self) -> int:
        """Number of nodes that the forward pass made."""
        return sum(self.forward.values())

    @property
    def backward_nodes(self) -> int:
        """Number of nodes that the backward pass made."""
        return sum(sum(counter.values()) for counter in self.backward.values())

    def __repr__(self) -> str:
        return f"<NodeCost: {self.forward_nodes} nodes forward, {self.backward_nodes} backward>"

    def __str__(self) -> str:
        lines = [
            f"forward: {count(self.forward_nodes, 'node')}, {self.forward_bytes:,} bytes; "
            f"backward: {count(self.backward_nodes, 'node')}, {self.backward_bytes:,} bytes"
        ]
        for name in sorted(self.forward.keys() | self.backward.keys()):
            made = self.backward.get(name, Counter())
            kinds = ", ".join(f"{number} × {kind}" for kind, number in made.most_common())
            lines.append(
                f"  {self.forward[name]} × {name}: {count(sum(made.values()), 'node')} backward ({kinds or '–'})"
            )
        return "\n".join(lines)


def node_cost(fn: Callable[..., Tensor], *inputs: Tensor) -> NodeCost:
    """Count the nodes and bytes that ``fn(*inputs)`` and its gradient (with ``create_graph=True``) make.

    Parameters
    ----------
    fn : callable
        Takes tensors and returns a tensor, of any shape.
    *inputs : Tensor
        What it is called with; the gradient is taken with respect to those that require grad. No ``.grad`` is set.

    Returns
    -------
    NodeCost

    Raises
    ------
    ValueError
        If the result of `fn` requires no grad.

    Examples
    --------
    >>> import needle as ndl
    >>> from needle import memory
    >>> x = ndl.Tensor([[1.0, 2.0]])
    >>> print(memory.node_cost(lambda x: ndl.broadcast_to(x, (3, 2)), x))
    forward: 1 node, 0 bytes; backward: 1 node, 16 bytes
      1 × BroadcastTo: 1 node backward (1 × SumTo)
    """
    result = NodeCost()
    made: list[tuple[Value, Origin]] = []

    def note(value: Value) -> None:
        made.append((value, here(sys._getframe())))

    with listening(note):
        output = fn(*inputs)
    if not isinstance(output, Tensor) or not output.requires_grad:
        raise ValueError("node_cost: fn must return a tensor that requires grad, or there is no gradient to count")
    given = [array for x in inputs for array in arrays_in(x.cached_data)]
    forward = [value for value, _ in made if value.op is not None]
    result.forward.update(op_name(value) for value in forward)
    before = bytes_of(given)
    with_forward = given + [array for value in forward for array in arrays_in(value.cached_data)]
    result.forward_bytes = bytes_of(with_forward) - before

    made.clear()
    wanted = [x for x in inputs if x.requires_grad] or _leaves(output)
    # The gradient of the output requires grad itself, so that whatever is computed from it is recorded.
    seed = Tensor._from_array(output.device.ones(output.shape, output.dtype), True)
    with listening(note):
        gradients = grad(output, wanted, seed, create_graph=True, allow_unused=True)
    backward = [(value, made_at) for value, made_at in made if value.op is not None]
    for value, made_at in backward:
        cause = made_at.backward_of or ""
        result.backward.setdefault(cause, Counter())[op_name(value)] += 1
        result.backward_lines.setdefault(cause, Counter())[made_at] += 1
    everything = with_forward + [seed.cached_data]
    before = bytes_of(everything)
    result.backward_bytes = (
        bytes_of(everything + [array for value, _ in backward for array in arrays_in(value.cached_data)]) - before
    )
    del gradients
    return result


def recorded_nodes(fn: Callable[..., Any], *args: Any) -> list[tuple[str, Origin]]:
    """The graph nodes that ``fn(*args)`` records: the op of each, and the line that made it.

    An optimizer's step or the update of a running statistic should record none.

    Examples
    --------
    >>> import needle as ndl
    >>> from needle import memory
    >>> w = ndl.Tensor([1.0])
    >>> [op for op, _ in memory.recorded_nodes(lambda: w - 0.1 * w.data)]
    ['EWiseAdd']
    """
    made: list[tuple[Value, Origin]] = []
    with listening(lambda value: made.append((value, here(sys._getframe())))):
        fn(*args)
    return [(op_name(value), made_at) for value, made_at in made if value.op is not None]


class GraphSummary:
    """What `graph_summary` found. ``str()`` gives a table.

    Attributes
    ----------
    nodes : int
        Computed nodes, the tensor itself included.
    leaves : int
        Leaves that they were computed from.
    depth : int
        Ops on the longest path from a leaf to the tensor.
    bytes : int
        Bytes that the graph keeps alive: arrays of nodes and leaves, and arrays that ops hold in attributes. Memory
        that several share is counted once.
    by_op : Counter
        Nodes by op.
    largest : list of (str, int)
        The holders of most memory, each with its bytes: op, shape, dtype and, if tracked, the line that made it.
    """

    def __init__(self, nodes: list[Any], leaves: list[Any], depth: int, top: int):
        self.nodes = len(nodes)
        self.leaves = len(leaves)
        self.depth = depth
        self.by_op = Counter(op_name(node) for node in nodes)
        holders: dict[int, tuple[str, int]] = {}
        seen: set[int] = set()
        item: Any
        for item in [*leaves, *nodes]:
            owners = {}
            for array in (*arrays_in(item.cached_data), *_arrays_of_op(item)):
                owner, size = storage(array)
                if id(owner) not in seen:
                    owners[id(owner)] = size
            seen.update(owners)
            holders[id(item)] = (_describe(item), sum(owners.values()))
        self.bytes = sum(size for _, size in holders.values())
        self.largest = sorted((h for h in holders.values() if h[1]), key=lambda h: (-h[1], h[0]))[:top]

    def __repr__(self) -> str:
        return f"<GraphSummary: {self.nodes} nodes, depth {self.depth}, {self.bytes:,} bytes>"

    def __str__(self) -> str:
        lines = [
            f"graph of {count(self.nodes, 'node')} over {self.leaves} {'leaf' if self.leaves == 1 else 'leaves'}, "
            f"{count(self.depth, 'op')} deep, "
            f"keeps {self.bytes:,} bytes alive",
            "  ops:     " + ", ".join(f"{number} × {name}" for name, number in self.by_op.most_common()),
        ]
        for position, (text, size) in enumerate(self.largest):
            lines.append(f"  {'largest:' if not position else '        '} {size:,} bytes  {text}")
        return "\n".join(lines)


def graph_summary(tensor: Value, top: int = 5) -> GraphSummary:
    """What the graph of `tensor` consists of and how much memory it keeps alive.

    Parameters
    ----------
    tensor : Tensor or TensorTuple
    top : int
        How many of the largest holders are listed.

    Returns
    -------
    GraphSummary

    Notes
    -----
    Where a backward with ``create_graph=False`` has taken the graph apart it ends: nothing is kept beyond.

    Examples
    --------
    >>> import needle as ndl
    >>> from needle import memory
    >>> x = ndl.Tensor([[1.0, 2.0, 3.0]])
    >>> print(memory.graph_summary((x * 2).exp().sum()))
    graph of 3 nodes over 1 leaf, 3 ops deep, keeps 80 bytes alive
      ops:     1 × Summation, 1 × Exp, 1 × MulScalar
      largest: 24 bytes  Exp (1, 3) float64
               24 bytes  MulScalar (1, 3) float64
               24 bytes  leaf (1, 3) float64
               8 bytes  Summation () float64
    """
    return summarize([tensor], top)


def summarize(tensors: Iterable[Value], top: int) -> GraphSummary:
    """`graph_summary` of several tensors together: what their graphs share is counted once."""
    found = depths(tensors)
    nodes = [node for node in found if node.op is not None]
    leaves = [node for node in found if node.op is None]
    return GraphSummary(nodes[::-1], leaves, max(found.values(), default=0), top)


def depths(values: Iterable[Any]) -> dict[Any, int]:
    """The number of ops on the longest path to each of `values` from a leaf, or from a graph that was taken apart."""
    depths: dict[Any, int] = {}
    for start in values:
        stack = [start]
        while stack:
            node = stack[-1]
            if node in depths:
                stack.pop()
                continue
            edges = node._inputs or ()
            waiting = [edge for edge in edges if edge not in depths]
            if waiting:
                stack.extend(waiting)
            else:
                depths[stack.pop()] = 0 if node.op is None else 1 + max([depths[edge] for edge in edges], default=0)
    return depths


def _arrays_of_op(item: Any) -> Iterable[Any]:
    """Arrays that an op keeps for its gradient beside the node's own."""
    for value in vars(item.op).values() if item.op is not None else ():
        yield from arrays_in(value.cached_data if isinstance(value, Value) else value)


def _describe(item: Any) -> str:
    name = "leaf" if item.op is None else op_name(item)
    made = origin(item)
    return f"{name} {shapes(item)}" + (f"  {made}" if made else "")


def shapes(node: Any) -> str:
    """Shape and dtype of a node; of each item of a tuple."""
    arrays: Iterable[Any] = [node] if type(node) is Stub and node.cached_data is None else arrays_in(node.cached_data)
    return ", ".join([f"{tuple(array.shape)} {array.dtype}" for array in arrays])


def _leaves(output: Tensor) -> list[Tensor]:
    """The leaves under `output` that somebody holds."""
    found: list[Any] = [n.ref() for n in _post_order([output]) if isinstance(n, Stub) and n.requires_grad]
    return [tensor for tensor in found if tensor is not None]
