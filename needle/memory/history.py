"""A warning for the commonest leak: a value that is carried from step to step together with its whole history.

``total = total + loss`` keeps the graph of every step, for as long as ``total`` lives. Nobody watches single nodes:
`needle.optim.Optimizer.reset_grad`, which a training loop calls once in each step, has a look at steps number 32, 64,
128 and so on. Only if there is a graph then that is at least as deep as steps were made, it is watched for one step
more, and only if that step adds to what it found, the warning is given.
"""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from typing import Any

from .census import live_nodes, token
from .cost import depths, graph_summary
from .creation import origin, track

_enabled = True
_warned = False


class HistoryWarning(UserWarning):
    """Some value keeps the graph of every step."""


def history_warning(on: bool) -> None:
    """Turn the warning on or off; it is on at the start, and is given once.

    Examples
    --------
    >>> from needle import memory
    >>> memory.history_warning(False)
    >>> memory.history_warning(True)
    """
    global _enabled, _warned
    _enabled = bool(on)
    _warned = False


class Watch:
    """What is remembered for the one step in which a deep graph is watched."""

    def __init__(self, deep: list[Any], steps: int):
        self.steps = steps
        self.deep = {id(ref): ref for ref in map(token, deep)}
        self.open = ExitStack()
        self.open.enter_context(track())


def look(watch: Watch | None, steps: int) -> Watch | None:
    """Look for a graph that grows with the steps; what is returned is handed in again after the next step.

    Parameters
    ----------
    watch : Watch or None
        What the call before returned, if that was one step ago.
    steps : int
        How many steps were made.
    """
    if watch is not None:
        watch.open.close()
        _judge(watch)
        return None
    if not _enabled or _warned:
        return None
    found = depths(live_nodes())
    deep = [value for value, depth in found.items() if depth >= steps and value.op is not None]
    return Watch(deep, steps) if deep else None


def _judge(watch: Watch) -> None:
    """Warn if a tensor made in the last step was computed from one that is deep and is alive since the step before."""
    global _warned
    if _warned or not _enabled:
        return
    for node in live_nodes():
        made = origin(node)
        if made is None or id(token(node)) in watch.deep:
            continue
        if not any(edge.op is not None and id(token(edge)) in watch.deep for edge in node._inputs or ()):
            continue
        _warned = True
        summary = graph_summary(_last(node))
        text = (
            f"line {made.line}, {made.source or 'a computation'!r}, carries its history from step to step: after "
            f"{watch.steps + 1} steps a graph of {summary.nodes:,} operations, {summary.depth:,} deep, keeps "
            f"{summary.bytes:,} bytes. Carry the value without its graph: .detach(), or .numpy() of a loss that is "
            "only reported. needle.memory.history_warning(False) turns this warning off."
        )
        warnings.warn_explicit(text, HistoryWarning, made.filename, made.line)
        return


def _last(node: Any) -> Any:
    """The end of the chain of nodes computed from `node`."""
    consumers = {id(token(edge)): other for other in live_nodes() for edge in other._inputs or ()}
    seen = {node}
    while consumers.get(id(token(node)), node) not in seen:
        node = consumers[id(token(node))]
        seen.add(node)
    return node
