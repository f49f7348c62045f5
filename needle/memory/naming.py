"""Chains of references in words."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

from ..autograd import Stub, Tensor, Value
from .census import array_types, op_name
from .creation import locals_of, place_of

_CONTAINERS = (list, tuple, dict, set, frozenset, deque)


class Chain:
    """An answer of `why_alive`. ``str()`` gives it in one line.

    It holds names and texts only, no tensor.

    Attributes
    ----------
    kind : str
        ``"named"`` if a variable holds the tensor in the end; ``"cycle"`` if only a reference cycle does, so that it
        lives until the cyclic collector comes by; ``"temporary"`` if nothing that has a name does: a running function
        is working with it, or code that is not written in Python holds it.
    root : str
        The variable that it starts from; empty if there is none.
    parts : list of str
        What leads from there to the tensor, ending with the tensor.
    holders : list of type
        The classes of the objects on the way.
    attributes : list of (type, str)
        The attributes on the way: the class of the object that has it, and its name.
    graph : bool
        Whether edges of a graph are part of the way, or the tensor itself was computed by a recorded op.
    """

    def __init__(self, kind: str, root: str = "", note: str = ""):
        self.kind = kind
        self.root = root
        self.note = note
        self.parts: list[str] = []
        self.holders: list[type] = []
        self.attributes: list[tuple[type, str]] = []
        self.graph = False

    def __str__(self) -> str:
        text = " → ".join(([self.root] if self.root else []) + self.parts)
        if self.kind == "cycle":
            text = f"only a reference cycle: {text}"
        elif self.kind == "temporary":
            text = f"nothing that has a name: {text or 'a value in use by running code'}"
        return text + self.note

    def __repr__(self) -> str:
        return f"<Chain: {self}>"


def variable(frame: types.FrameType, name: str) -> str:
    """What to call a local variable of a running function."""
    return f"{name} in {frame.f_code.co_name}() ({place_of(frame.f_code.co_filename, frame.f_lineno)})"


def label(item: Any) -> str:
    """What to call an object: its class, and for a tensor its op."""
    if isinstance(item, Value):
        return f"{type(item).__name__}({op_name(item)})" if item.op is not None else type(item).__name__
    if isinstance(item, Stub) and item.op is not None:
        return f"Tensor({op_name(item)})"
    if isinstance(item, Stub):
        return "a leaf's array"
    if type(item) in array_types():
        return f"array of {item.dtype} {tuple(item.shape)}"
    if isinstance(item, type):
        return f"class {item.__qualname__}"
    if isinstance(item, types.FunctionType):
        return f"{item.__qualname__}() ({place_of(item.__code__.co_filename, item.__code__.co_firstlineno)})"
    if isinstance(item, (types.GeneratorType, types.CoroutineType, types.MethodType)):
        return f"{item.__qualname__}()"
    if isinstance(item, types.FrameType):
        return f"{item.f_code.co_name}() kept by a traceback"
    return type(item).__name__


def describe(chain: Chain, path: list) -> Chain:
    """Fill `chain` with what leads along `path`, each object of which refers to the next.

    Accessors are joined to the name of what they start from (``losses[3]``, ``Adam.m[3]``), and every object that is no
    mere container starts a new part.
    """
    parts: list[str] = []
    text, within, function = chain.root.partition(" in ")  # "losses", "train() (train.py:12)"
    if not text or not isinstance(path[0], _CONTAINERS):
        if text:
            parts.append(text)
        text = label(path[0])
    at = 0
    while at < len(path) - 1:
        chain.holders.append(type(path[at]))
        end = _end_of_graph(path, at)
        if end > at:
            chain.graph = True
            parts.append(text)
            if any(isinstance(step, (Value, Stub)) for step in path[at + 1 : end]):
                parts.append(f"… graph of {graph_size(path[at])} nodes")
            text, at = label(path[end]), end
            continue
        holder = path[at]
        accessor, at = _hop(path, at)
        if accessor.startswith("."):
            chain.attributes.append((holder if isinstance(holder, type) else type(holder), accessor[1:]))
        text += accessor
        if not isinstance(path[at], _CONTAINERS):
            parts.append(text)
            text = label(path[at])
    parts.append(text)
    parts[0] += within + function
    chain.holders.append(type(path[-1]))
    chain.graph = chain.graph or getattr(path[-1], "op", None) is not None
    chain.root, chain.parts = (parts[0], parts[1:]) if chain.kind == "named" else ("", parts)
    return chain


def graph_size(value: Any) -> int:
    """How many computed nodes the graph of `value` has, itself included."""
    seen = {value}
    stack: list[Any] = [value]
    while stack:
        for edge in stack.pop()._inputs or ():
            if edge.op is not None and edge not in seen:
                seen.add(edge)
                stack.append(edge)
    return len(seen)


def _end_of_graph(path: list, at: int) -> int:
    """Where the edges of a graph that `path` follows from position `at` on end."""
    while at < len(path) - 1 and isinstance(path[at], (Value, Stub)):
        edges, following = path[at]._inputs or (), path[at + 1]
        if following is getattr(path[at], "_stub", None):
            at += 1  # a tensor holds the stub that graphs have in its place
            continue
        if following is edges and at + 2 < len(path):
            at += 2
        elif any(edge is following for edge in edges):
            at += 1
        else:
            break
    return at


def _hop(path: list, at: int) -> tuple[str, int]:
    """The accessor that leads from ``path[at]`` to a later element, and the position of that element."""
    holder, item = path[at], path[at + 1]
    if isinstance(holder, (list, tuple, deque)):
        return f"[{next((i for i, element in enumerate(holder) if element is item), '…')}]", at + 1
    if isinstance(holder, dict):
        return next((f"[{short(k)}]" for k, v in list(holder.items()) if v is item), " (a key)"), at + 1
    if isinstance(holder, (set, frozenset)):
        return "{…}", at + 1
    if isinstance(holder, types.FunctionType):
        return _hop_from_function(path, at)
    if isinstance(holder, type) and isinstance(item, dict) and at + 2 < len(path):
        name = next((k for k, v in vars(holder).items() if v is path[at + 2]), None)
        if name is not None:
            return f".{name}", at + 2
    frame = holder if isinstance(holder, types.FrameType) else _frame_of(holder)
    if frame is item and at + 2 < len(path):  # a generator refers to its frame, up to Python 3.10
        return _hop([item, path[at + 2]], 0)[0], at + 2
    if frame is not None:
        return next((f" variable {k}" for k, v in locals_of(frame).items() if v is item), ""), at + 1
    for name, value in attributes_of(holder):
        if value is item:
            return f".{name}", at + 1
    if isinstance(item, dict) and at + 2 < len(path):
        found = next((k for k, v in item.items() if v is path[at + 2]), None)
        if found is not None and any(value is path[at + 2] for _, value in attributes_of(holder)):
            return f".{found}", at + 2
    return "", at + 1


def _hop_from_function(path: list, at: int) -> tuple[str, int]:
    function, item = path[at], path[at + 1]
    if item is function.__closure__ and at + 3 < len(path):
        position = next((i for i, cell in enumerate(item) if cell is path[at + 2]), 0)
        return f" closing over {function.__code__.co_freevars[position]}", at + 3
    if item is function.__defaults__ or item is function.__kwdefaults__:
        return " with a default argument", at + (2 if at + 2 < len(path) else 1)
    if isinstance(item, dict) and item is function.__dict__ and at + 2 < len(path):
        return f".{next((k for k, v in item.items() if v is path[at + 2]), '…')}", at + 2
    return "", at + 1


def _frame_of(holder: Any) -> types.FrameType | None:
    if isinstance(holder, types.GeneratorType):
        return holder.gi_frame
    return holder.cr_frame if isinstance(holder, types.CoroutineType) else None


def attributes_of(holder: Any) -> Iterator[tuple[str, Any]]:
    """Names and values of an object's own attributes."""
    for cls in type(holder).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            name = f"_{cls.__name__.lstrip('_')}{slot}" if slot.startswith("__") and not slot.endswith("__") else slot
            try:
                yield slot, object.__getattribute__(holder, name)
            except AttributeError:
                continue  # a slot that was not filled
    if type(holder).__dictoffset__:
        yield from list(object.__getattribute__(holder, "__dict__").items())
    for name in _PARTS_OF_BUILTINS.get(type(holder), ()):
        yield name, getattr(holder, name)


_PARTS_OF_BUILTINS: dict[type, tuple[str, ...]] = {
    types.MethodType: ("__self__", "__func__"),
    functools.partial: ("func", "args", "keywords"),
}


def short(key: Any) -> str:
    text = f"{label(key)} of shape {key.shape}" if isinstance(key, Tensor) else repr(key)
    return text if len(text) <= 40 else text[:37] + "..."


def writes_to(owner: type, attribute: str) -> str:
    """Where the methods of a class write to an attribute: file, line and source of such as ``self.masks.append(…)``.

    The first place outside of ``__init__``; empty if there is none or the source cannot be read.
    """
    for cls in owner.__mro__:
        try:
            lines, first = inspect.getsourcelines(cls)
            tree = ast.parse(textwrap.dedent("".join(lines)))
            filename = inspect.getsourcefile(cls)
        except (OSError, TypeError, SyntaxError):  # a class made by hand, or one of the interpreter's own
            continue
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef) and function.name != "__init__":
                for node in ast.walk(function):
                    if any(_mentions(target, attribute) for target in _targets(node)):
                        source = lines[node.lineno - 1].strip()  # type: ignore[attr-defined]
                        return f"{place_of(filename or '', first + node.lineno - 1)}: {source}"  # type: ignore[attr-defined]
    return ""


def _targets(node: ast.AST) -> list[ast.expr]:
    """What a statement assigns to, or a method call such as ``append`` may change."""
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        return [node.target]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return (
            [node.func.value] if node.func.attr in ("append", "add", "extend", "insert", "update", "setdefault") else []
        )
    return []


def _mentions(target: ast.expr, attribute: str) -> bool:
    while isinstance(target, (ast.Subscript, ast.Starred)):
        target = target.value
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(_mentions(element, attribute) for element in target.elts)
    return isinstance(target, ast.Attribute) and target.attr == attribute
