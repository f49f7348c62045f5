"""What helps in the cases that are well known, told from what holds a tensor."""

from __future__ import annotations

import types
from collections import deque

from ..autograd import Op, Value
from .naming import Chain, writes_to


def advice(chain: Chain) -> list[str]:
    """Sentences that say the likely mistake behind `chain`, and the remedy; none if nothing is known."""
    attributes = [(cls, name) for cls, name in chain.attributes if not issubclass(cls, Value) or name == "grad"]
    owner, attribute = attributes[-1] if attributes else (object, "")
    if chain.kind == "cycle":
        return [_about_cycle(chain, owner, attribute)]
    if chain.kind == "temporary":
        return []
    name = _name(owner, attribute)
    if _is_optimizer(owner):
        if chain.graph:
            return [
                f"{name} is an optimizer's state and carries the history of every step: compute it from p.grad.data, "
                "or under no_grad()"
            ]
        return [f"{name} grows with every step: keep one array for each parameter"]
    if issubclass(owner, Value):
        return [
            "a gradient that is kept holds the graph of its backward: backward(create_graph=False) makes none, and "
            "reset_grad() before backward lets the last one go"
        ]
    if types.FunctionType in chain.holders:
        return ["a function that is kept closes over a tensor of every step: let it take the tensor as an argument"]
    growing = next((kind.__name__ for kind in chain.holders[::-1] if kind in (list, dict, set, deque)), "")
    if _is_module(owner) and chain.graph and growing in ("", "dict"):
        return [
            f"{name} carries the history of every step: statistics are updated with constants, as in "
            f"self.{attribute} = (…).detach(), or under no_grad()"
        ]
    if growing:
        where = f"{name}, a {growing}," if attribute else f"a {growing}"
        if chain.graph:
            return [f"{where} keeps the graph of every step: keep .item(), .numpy() or .detach() of the tensor"]
        return [f"{where} grows with every step: keep only what is still needed"]
    if chain.graph:
        return [
            f"{name if attribute else chain.root} carries its history from step to step, as in total = total + loss: "
            "carry loss.numpy() or loss.detach()"
        ]
    return []


def _about_cycle(chain: Chain, owner: type, attribute: str) -> str:
    for op, kept in chain.attributes:
        if issubclass(op, Op):
            return (
                f"{_name(op, kept)} refers to a node that refers to the op: an op keeps nothing of its nodes, "
                "gradient is given the node"
            )
    if any(issubclass(cls, Value) and name == "grad" for cls, name in chain.attributes):
        return (
            "the .grad of a tensor that was computed, and that tensor, hold each other (retain_grad() with "
            "create_graph=True): use backward(create_graph=False), or needle.grad(…), which stores nothing"
        )
    at = f" at {_name(owner, attribute)}" if attribute else ""
    return f"break the cycle{at}: hold one side with weakref.ref, or keep a .detach()"


def _name(owner: type, attribute: str) -> str:
    """An attribute, and where it is written to."""
    place = writes_to(owner, attribute) if attribute and not issubclass(owner, Value) else ""
    return f"{owner.__name__}.{attribute}" + (f" ({place})" if place else "")


def _is_optimizer(cls: type) -> bool:
    return hasattr(cls, "step") and hasattr(cls, "reset_grad")


def _is_module(cls: type) -> bool:
    return hasattr(cls, "forward") and hasattr(cls, "parameters")
