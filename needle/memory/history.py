"""A warning for the commonest leak: a value that is carried from step to step together with its whole history.

``total = total + loss`` keeps the graph of every step, for as long as ``total`` lives. Nobody watches single nodes:
`needle.optim.Optimizer.reset_grad`, which a training loop calls once in each step, has a look at steps number 32, 64,
128 and so on. Only if there is a graph then that is at least as deep as steps were made, it is watched for two steps
more; and only if the first of them builds on what it found, and the second on what the first has built, the warning is
given. So neither a deep network nor a constant that was computed once is taken for history.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
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
    """What is remembered from one step to the next while a deep graph is watched.

    Parameters
    ----------
    nodes : sequence of Tensor or Stub
        All that are alive.
    carried : sequence of Tensor or Stub
        Those of them that the next step would build on if history is carried along.
    confirmed : bool
        Whether one step has built on what was there before it, so that the next one decides.
    """

    def __init__(self, nodes: Iterable[Any], carried: Iterable[Any], confirmed: bool):
        self.known = _by_token(nodes)
        self.carried = _by_token(carried)
        self.confirmed = confirmed
        self.open = ExitStack()
        if confirmed:
            self.open.enter_context(track())


def look(watch: Watch | None, steps: int) -> Watch | None:
    """Look for a graph that grows with the steps.

    Parameters
    ----------
    watch : Watch or None
        What the call before returned, if that was one step ago.
    steps : int
        How many steps were made.

    Returns
    -------
    Watch or None
        To be handed in again after the next step; None if there is nothing to watch.
    """
    if watch is not None:
        watch.open.close()
    if not _enabled or _warned:
        return None
    found = depths(live_nodes())
    if watch is None:
        deep = [node for node, depth in found.items() if depth >= steps and node.op is not None]
        return Watch(found, deep, False) if deep else None
    fresh = [node for node in found if node.op is not None and id(token(node)) not in watch.known]
    if not watch.confirmed:
        built_on = _depending(found, watch.carried)
        carried = [node for node in fresh if node in built_on]
        return Watch(found, carried, True) if carried else None
    for node in fresh:
        if origin(node) is not None and any(id(token(edge)) in watch.carried for edge in node._inputs or ()):
            _warn(node, steps)
            break
    return None


def _warn(node: Any, steps: int) -> None:
    global _warned
    _warned = True
    made, summary = origin(node), graph_summary(_last(node))
    if made is None:
        return
    text = (
        f"line {made.line}, {made.source or 'a computation'!r}, carries its history from step to step: after "
        f"{steps} steps a graph of {summary.nodes:,} operations, {summary.depth:,} deep, keeps "
        f"{summary.bytes:,} bytes. Carry the value without its graph: .detach(), or .numpy() of a loss that is "
        "only reported. needle.memory.history_warning(False) turns this warning off."
    )
    warnings.warn_explicit(text, HistoryWarning, made.filename, made.line)


def _by_token(nodes: Iterable[Any]) -> dict[int, Any]:
    return {id(ref): ref for ref in map(token, nodes)}


def _depending(order: Iterable[Any], tokens: dict[int, Any]) -> set[Any]:
    """Those of the nodes in `order`, inputs first, whose graphs have one of `tokens` in them."""
    found = set()
    for node in order:
        if id(token(node)) in tokens or any(edge in found for edge in node._inputs or ()):
            found.add(node)
    return found


def _last(node: Any) -> Any:
    """The end of the chain of nodes computed from `node`."""
    consumers = {id(token(edge)): other for other in live_nodes() for edge in other._inputs or ()}
    seen = {node}
    while consumers.get(id(token(node)), node) not in seen:
        node = consumers[id(token(node))]
        seen.add(node)
    return node
