"""Which op of a graph is to blame for a wrong gradient, and the words for it."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from ..autograd import Tensor, TensorTuple, no_grad
from .differences import Tolerance, jacobian, slope
from .function import Arrays, Function, GradientError, Record, random
from .mistakes import Measured, likeliest_mistake, mistake_in_shape

_LARGEST_JACOBIAN = 1_000_000  #: elements; of a larger one only some of the columns are measured
_SMALL = 400  #: elements of all inputs up to which each of them is also tried transposed


def diagnose(record: Record, grads: Arrays, allowed: Tolerance) -> GradientError:
    """The error about wrong gradients: of the op whose rule is wrong by itself, else of the whole function."""
    nodes = record.nodes()
    if len(nodes) < 2:
        return _Comparison(record, grads, allowed).error()
    stale = _stale(nodes)
    if stale is not None:
        hint = "its rule reads stale values: what the op keeps on itself was overwritten when it was applied again"
        return GradientError(f"{stale}: the gradient is wrong: {hint}", stale, hint)
    ops = [_alone(node) for node in nodes]
    for alone in filter(None, ops):
        comparison = _Comparison(alone, alone.gradients(create_graph=True), allowed)
        if comparison.differs():
            error = comparison.error()
            text = f"{error}\n  found in {record.function.name}, by trying each op of its graph alone"
            return GradientError(text, error.op, error.hint, error.input, error.index)
    comparison = _Comparison(record, grads, allowed)
    return comparison.error(comparison.hint() if None in ops else comparison.hint_of_composition())


class _Comparison:
    """Gradients beside the Jacobians that finite differences give, element by element."""

    def __init__(self, record: Record, grads: Arrays, allowed: Tolerance):
        self.record = record
        self.grads = grads
        self.allowed = allowed
        self.stride = max(1, record.cotangent.size * sum(x.size for x in record.point) // _LARGEST_JACOBIAN)
        self.jacobians: Arrays = []
        self.expected: Arrays = []
        self.excess: Arrays = []  # how many times its tolerance each element is off by
        wrong = self._bisect() if self.stride > 1 else [-1] * len(grads)
        for k, g in enumerate(grads):
            columns, tolerance = self._jacobian(record.point, k, wrong[k])
            expected = record.cotangent @ columns
            ratio = np.abs(g.ravel() - expected) / (tolerance + allowed.relative * np.abs(g.ravel()))
            ratio[~np.isfinite(g.ravel())] = np.inf
            ratio[np.isnan(expected)] = 0.0
            self.jacobians.append(columns)
            self.expected.append(expected.reshape(g.shape))
            self.excess.append(ratio.reshape(g.shape))
        self.worst = int(np.argmax([x.max(initial=0.0) for x in self.excess]))

    def _jacobian(self, point: Arrays, k: int, also: int = -1) -> tuple[np.ndarray, np.ndarray]:
        """The Jacobian by input k; of a large one only some columns, and the one of element `also`."""
        elements = {*range(0, point[k].size, self.stride), *([also] if also >= 0 else [])}
        return jacobian(self.record.function.evaluate, point, k, self.record.cotangent, self.allowed, elements)

    def _bisect(self) -> list[int]:
        """For each input one element that is off, if any is: of two halves, the one with the larger error is kept."""
        rng, found = np.random.default_rng(0), []
        for k, x in enumerate(self.record.point):
            kept = np.arange(x.size)
            while kept.size > 1:
                halves = np.array_split(kept, 2)
                kept = halves[int(np.argmax([self._error_along(rng, k, half) for half in halves]))]
            found.append(int(kept[0]) if kept.size else -1)
        return found

    def _error_along(self, rng: np.random.Generator, k: int, elements: np.ndarray) -> float:
        """How far the slope along a random direction of some elements of input k is from what the gradient says."""
        direction = [np.zeros(x.shape) for x in self.record.point]
        direction[k].flat[elements] = random(rng, elements.shape)
        found = slope(self.record.function.evaluate, self.record.point, direction, self.record.cotangent, self.allowed)
        if found is None:
            return 0.0
        claimed = (self.grads[k] * direction[k]).sum()
        return float(np.nan_to_num(abs(claimed - self.record.cotangent @ found.derivative), nan=np.inf))

    def differs(self) -> bool:
        return any((x > 1).any() for x in self.excess)

    def error(self, hint: str | None = None) -> GradientError:
        """The error about the worst element."""
        k, function = self.worst, self.record.function
        hint = hint or self.hint()
        grad, expected, excess = self.grads[k], self.expected[k], self.excess[k]
        index = tuple(int(i) for i in np.unravel_index(np.argmax(excess), excess.shape))
        text = (
            f"{function.name}: the gradient of input {function.checked[k]} is wrong: {hint}\n"
            f"  worst at {index}: the gradient is {grad[index]:.10g}, by finite differences {expected[index]:.10g}; "
            f"{(excess > 1).sum()} of {excess.size} elements differ\n"
            f"  inputs: {', '.join(f'{x.dtype} {x.shape}' for x in function.tensors)}"
        )
        return GradientError(text, function.name, hint, function.checked[k], index)

    def hint(self) -> str:
        """The likeliest mistake in a single rule."""
        k, positions = self.worst, self.record.function.checked
        return likeliest_mistake(
            Measured(
                gradient=self.grads[k],
                expected=self.expected[k],
                jacobian=self.jacobians[k],
                cotangents=self.record.cotangents,
                others={positions[i]: e for i, e in enumerate(self.expected) if i != k},
                transposed={positions[i]: e for i, e in self._with_others_transposed(k)},
            )
        )

    def _with_others_transposed(self, k: int) -> list[tuple[int, np.ndarray]]:
        """What the gradient would be if another input had its last two axes swapped, where they are of one size."""
        found, point = [], self.record.point
        for i, x in enumerate(point):
            if i != k and x.ndim > 1 and x.shape[-1] == x.shape[-2] and sum(a.size for a in point) <= _SMALL:
                columns, _ = self._jacobian(point[:i] + [x.swapaxes(-1, -2)] + point[i + 1 :], k)
                found.append((i, (self.record.cotangent @ columns).reshape(point[k].shape)))
        return found

    def hint_of_composition(self) -> str:
        """The likeliest mistake where each op is right alone."""
        leaf = self.record.inputs[self.worst]
        uses = sum(i is leaf for node in self.record.nodes() for i in node.inputs)
        hint = "each op of the graph is right alone, so a part of the function is not in it (.numpy(), .data, detach())"
        return hint + (f", or not all {uses} uses of the input are counted: `=` for `+=`" if uses > 1 else "")


def _alone(node: Any) -> Record | None:
    """An op applied afresh to the arrays that a node was computed from; None if there is no gradient to check."""
    values = [node, *node.inputs]
    if any(isinstance(i, TensorTuple) for i in node.inputs) or any(
        a.dtype.kind == "f" and a.dtype != np.float64 for v in values for a in _arrays(v)
    ):
        return None
    tensors = [Tensor.make_const(i, requires_grad=i.requires_grad) for i in node.inputs]
    if not any(x.requires_grad and x.dtype == np.float64 for x in tensors):
        return None
    function = Function(node.op, tensors)
    return Record(function, function.point, np.random.default_rng(0))


def _arrays(value: Any) -> tuple:
    data = value.realize_cached_data()
    return data if isinstance(data, tuple) else (data,)


def _rule(node: Any) -> list[np.ndarray | None]:
    """What the gradient rule of a node gives for ones."""
    ones = [Tensor(np.ones(a.shape, a.dtype), device=node.device, requires_grad=False) for a in _arrays(node)]
    with no_grad():
        given = node.op.gradient_as_tuple(ones[0], node)
    return [None if g is None else g.numpy() for g in given]


def _stale(nodes: list) -> str | None:
    """An op whose rule gives something else than for the same inputs afresh."""
    nodes = [n for n in nodes if all(isinstance(v, Tensor) for v in (n, *n.inputs))]
    recorded = [_rule(node) for node in nodes]
    for node, before in zip(nodes, recorded):
        afresh = node.op(*[Tensor.make_const(i, requires_grad=i.requires_grad) for i in node.inputs])
        if afresh.op is None:
            continue
        for a, b in zip(before, _rule(afresh)):
            if a is not None and b is not None and not np.array_equal(a, b, equal_nan=True):
                return repr(node.op)
    return None


def compare_without_graph(record: Record, with_graph: Arrays, without: Arrays) -> GradientError | None:
    """The error about gradients that create_graph=False computes otherwise, if it does."""
    for k, a, b in zip(record.function.checked, with_graph, without):
        limit = 1e-12 * np.abs(a[np.isfinite(a)]).max(initial=0.0)
        differ = ~np.isclose(a, b, rtol=0.0, atol=limit, equal_nan=True)
        if not differ.any():
            continue
        nodes = record.nodes()
        for alone in filter(None, [_alone(node) for node in nodes] if len(nodes) > 1 else ()):
            error = compare_without_graph(
                alone, alone.gradients(create_graph=True), alone.gradients(create_graph=False)
            )
            if error is not None:
                return error
        name, index = record.function.name, tuple(int(i) for i in np.argwhere(differ)[0])
        hint = (
            "create_graph=False gives another gradient than create_graph=True: the rule does with arrays something "
            "else than with tensors, or changes one in place"
        )
        text = (
            f"{name}: the gradient of input {k} is wrong: {hint}\n"
            f"  at {index}: {b[index]:.10g} without a graph, {a[index]:.10g} with one"
        )
        return GradientError(text, name, hint, k, index)
    return None


def explain_failure(record: Record, error: Exception, create_graph: bool) -> GradientError:
    """The error about a gradient that could not be computed, with the op that it comes from."""
    nodes = record.nodes()
    for alone in filter(None, [_alone(node) for node in nodes] if len(nodes) > 1 else ()):
        try:
            alone.gradients(create_graph)
        except Exception as cause:
            return explain_failure(alone, cause, create_graph)
    name, hint, position = record.function.name, f"{type(error).__name__}: {error}", None
    if len(nodes) == 1 and isinstance(nodes[0], Tensor):
        with contextlib.suppress(Exception):  # a rule that raises has said by itself what is wrong
            for k, (given, x) in enumerate(zip(_rule(nodes[0]), nodes[0].inputs)):
                if given is not None and given.shape != x.shape:
                    position, hint = k, mistake_in_shape(given.shape, x.shape)
                    break
    if position is None and not create_graph:
        hint += (
            "; with create_graph=True it can. An op that declares `reads` promises a rule that runs on arrays too: "
            "only operators and needle.ops functions, no methods of tensors"
        )
    which = "the gradient" if position is None else f"the gradient of input {position}"
    return GradientError(f"{name}: {which} cannot be computed: {hint}", name, hint, position)
