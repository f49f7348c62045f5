"""Who keeps a tensor alive: the shortest chain of references from something that has a name.

References are followed backwards, level by level, from the tensor to what refers to it, to what refers to that, and so
on, until a variable of a running function or of a module is met. What refers to what, the collector knows: it can list
the referents of every object in its list. Edges of a graph are not counted as links: a tensor that a graph of ten
thousand nodes holds is as near to the holder of that graph as one that a graph of two nodes holds.
"""

from __future__ import annotations

import gc
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from typing import Any

from ..autograd import Stub, Value
from .census import Tensors, subclasses
from .creation import PACKAGE, is_function, locals_of
from .naming import Chain, describe, label, variable

TOOLS = PACKAGE + "memory"


def why_alive(tensor: Any) -> Chain:
    """The shortest chain of references from something that a person can name to `tensor`.

    Parameters
    ----------
    tensor : Tensor, TensorTuple or array

    Returns
    -------
    Chain
        ``str()`` of it is such as ``optimizer in train() (train.py:12) → Adam.m[3] → Tensor(MulScalar) → … graph of
        41 nodes → Tensor(MatMul)``. The caller's own variable for the tensor counts only if there is nothing else.

    Examples
    --------
    >>> import needle as ndl
    >>> from needle import memory
    >>> losses = []
    >>> def step():
    ...     x = ndl.Tensor([1.0, 2.0])
    ...     h = x * 2
    ...     losses.append(h.sum())
    ...     return memory.why_alive(h)
    >>> print(step())
    global losses[0] → Tensor(Summation) → Tensor(MulScalar)
    """
    return References(arrays=not isinstance(tensor, Value)).explain(tensor)


class References:
    """What refers to what, at one moment; for several questions about that moment.

    Parameters
    ----------
    arrays : bool
        Whether arrays will be asked about: dictionaries that hold nothing else are not in the collector's list and
        have to be found first.
    named : sequence of object
        Objects that a person can name, beside variables.
    """

    def __init__(self, arrays: bool = False, named: Sequence[Any] = ()):
        objects = gc.get_objects()  # before this has attributes: a dictionary of them would be among the objects
        self._named_objects = set(map(id, named))
        skip: set[int] = set()
        running = _running_frames(skip)
        kinds = (Tensors, References, Chain)
        self._objects = [o for o in objects if id(o) not in skip and type(o) not in kinds]
        self._unlisted = _untracked(objects) if arrays else []
        self._ids = set(map(id, self._objects))

        self._locals: dict[int, list[tuple[types.FrameType, str]]] = {}
        self._caller: types.FrameType | None = None
        self._modules: dict[int, str] = {}
        for module_name, module in list(sys.modules.items()):
            self._modules.setdefault(id(_variables(module)), module_name)
        for frame in running:
            if self._caller is None:
                self._caller = frame
            if _is_module(frame):
                self._modules.setdefault(id(frame.f_globals), frame.f_globals.get("__name__", "a script"))
                continue
            for name, value in locals_of(frame).items():
                if not name.isidentifier():  # what pytest and comprehensions put there
                    continue
                self._locals.setdefault(id(value), []).append((frame, name))

        self._consumers: dict[int, list[Any]] = {}
        self._edges: set[int] = set()
        nodes = subclasses(Value) | {Stub}
        for node in self._objects:
            if type(node) in nodes:
                inputs = getattr(node, "_inputs", None) or ()
                self._edges.add(id(inputs))
                for edge in inputs:
                    self._consumers.setdefault(id(edge), []).append(node)

    def in_a_graph(self, node: Any) -> bool:
        """Whether another node was computed from this one and holds it, or a stub of it."""
        return id(node) in self._consumers or id(getattr(node, "_stub", None)) in self._consumers

    def holders_of(self, items: list) -> dict[int, Any]:
        """For the id of each of `items` that an object refers to, the first such object."""
        wanted = set(map(id, items))
        found: dict[int, Any] = {}
        for holder in self._objects:
            for item in gc.get_referents(holder):
                if id(item) in wanted and id(holder) not in self._edges:
                    found.setdefault(id(item), holder)
        return found

    def explain(self, target: Any) -> Chain:
        """The answer of `why_alive` for `target`."""
        towards: dict[int, Any] = {}  # for each holder that was found, what it holds on the way to the target
        level: list[Any] = [target]
        first = True
        while level:
            level = self._with_graphs(level, towards, target)
            for item in level:
                if id(item) in self._named_objects:
                    return self._named("", item, towards, target)
                for frame, name in self._locals.get(id(item), ()):
                    if not (first and item is target and frame is self._caller):
                        return self._named(variable(frame, name), item, towards, target)
            found, level = level, []
            wanted = {id(item): item for item in found}
            for holder in self._candidates(found):
                if id(holder) in towards or holder is target or id(holder) in self._edges:
                    continue
                for item in gc.get_referents(holder):
                    if id(item) in wanted:
                        if id(holder) in self._modules:
                            root = self._global(holder, item, target)
                            if root:
                                return self._named(root, item, towards, target)
                            continue
                        towards[id(holder)] = item
                        level.append(holder)
                        break
            first = False
        return self._unnamed(target, towards)

    def _candidates(self, items: list) -> list:
        """Objects of that moment, all that refer to one of `items` among them."""
        if len(items) > 50:  # the collector compares every reference with every item
            return self._objects + self._unlisted
        return [o for o in gc.get_referrers(*items) if id(o) in self._ids] + self._unlisted

    def _with_graphs(self, level: list, towards: dict[int, Any], target: Any) -> list:
        """`level` and all tensors whose graphs it is part of."""
        reached = list(level)
        for item in reached:
            for consumer in self._consumers.get(id(item), ()):
                if id(consumer) not in towards and consumer is not target:
                    towards[id(consumer)] = item
                    reached.append(consumer)
        return reached

    def _global(self, variables: dict, item: Any, target: Any) -> str:
        """What to call the variable of a module that `item` is the value of; empty if it is the asker's own."""
        module = self._modules[id(variables)]
        if item is target and self._asked_by_module() and self._caller.f_globals is variables:  # type: ignore[union-attr]
            return ""
        name = next((key for key, value in variables.items() if value is item), "")
        known = module not in ("__main__", "builtins") and _variables(sys.modules.get(module)) is variables
        return f"{module}.{name}" if name and known else name and f"global {name}"

    def _named(self, root: str, item: Any, towards: dict[int, Any], target: Any) -> Chain:
        path = [item]
        while path[-1] is not target:
            path.append(towards[id(path[-1])])
        return self._describe(Chain("named", root), path)

    def _describe(self, chain: Chain, path: list) -> Chain:
        describe(chain, path)
        for item in path:
            # Asked for its attributes, an object may have made a dictionary of them, which is new here.
            if type(item).__dictoffset__:
                attributes = object.__getattribute__(item, "__dict__")
                if id(attributes) not in self._ids:
                    self._ids.add(id(attributes))
                    self._objects.append(attributes)
        return chain

    def _unnamed(self, target: Any, towards: dict[int, Any]) -> Chain:
        """A cycle, or the asker's own variable, or nothing."""
        own = next((name for frame, name in self._locals.get(id(target), ()) if frame is self._caller), "")
        if self._asked_by_module():
            variables = list(self._caller.f_globals.items())  # type: ignore[union-attr]
            own = next((name for name, value in variables if value is target), "")
        cycle = _cycle(target, self._holders(towards))
        if cycle:
            chain = self._describe(Chain("cycle", note=f" (beside {own}, which asks)" if own else ""), cycle)
            if cycle[-1] is not target:
                chain.note = f", which holds {label(target)}{chain.note}"
            return chain
        if own and self._caller is not None:
            root = f"global {own}" if self._asked_by_module() else variable(self._caller, own)
            return self._describe(Chain("named", root), [target])
        path = [next(reversed(self._holders(towards)), target)]
        while path[-1] is not target:
            path.append(towards[id(path[-1])])
        return self._describe(Chain("temporary"), path)

    def _asked_by_module(self) -> bool:
        return self._caller is not None and _is_module(self._caller)

    def _holders(self, towards: dict[int, Any]) -> list:
        """The objects whose ids are the keys of `towards`, in the order in which they were found."""
        objects = {id(item): item for item in [*self._objects, *self._unlisted] if id(item) in towards}
        return [objects[key] for key in towards if key in objects]


def _variables(module: Any) -> dict[str, Any] | None:
    """The global variables of `module`. Asking a lazy module itself, as `vars` does, would import it."""
    return object.__getattribute__(module, "__dict__") if isinstance(module, types.ModuleType) else None


def _untracked(objects: list) -> list:
    """Dictionaries and tuples that the collector does not list because nothing in them can be part of a cycle."""
    found: dict[int, Any] = {}
    while objects:
        inner = [
            item
            for item in gc.get_referents(*objects)
            if type(item) in (dict, tuple) and not gc.is_tracked(item) and id(item) not in found
        ]
        found.update((id(item), item) for item in inner)
        objects = inner
    return list(found.values())


def _is_module(frame: types.FrameType) -> bool:
    # Asking a function's frame for its locals has an effect, see `locals_of`.
    return not is_function(frame) and frame.f_locals is frame.f_globals


def local_variables() -> Iterator[dict[str, Any]]:
    """The local variables of each running function that is not one of these tools."""
    for frame in _running_frames(set()):
        yield locals_of(frame)


def _running_frames(ids: set[int]) -> list[types.FrameType]:
    """The frames of all threads, innermost first, this thread's before the others'; the `ids` of all are added.

    Without the frames of these tools: a list of them in a variable of one of them would be a reference cycle.
    """
    found = []
    others = sys._current_frames()
    del others[threading.get_ident()]  # this very frame, which would be a cycle too
    for frame in (sys._getframe(1), *others.values()):
        while frame is not None and id(frame) not in ids:
            ids.add(id(frame))
            if not frame.f_code.co_filename.startswith(TOOLS):
                found.append(frame)
            frame = frame.f_back  # type: ignore[assignment]
    return found


def _cycle(target: Any, holders: list) -> list:
    """A shortest path of references from an object back to itself: through `target`, or else one of its `holders`."""
    allowed = {id(item) for item in (target, *holders)}
    for start in (target, *sorted(holders, key=lambda item: isinstance(item, (dict, list, tuple)))[:1000]):
        before: dict[int, Any] = {}
        level = [start]
        while level:
            following = []
            for item in level:
                for referent in gc.get_referents(item):
                    if referent is start:
                        path = [item, start]
                        while path[0] is not start:
                            path.insert(0, before[id(path[0])])
                        return path
                    if id(referent) not in before and (id(referent) in allowed or _is_edges(item, referent)):
                        before[id(referent)] = item
                        following.append(referent)
            level = following
    return []


def _is_edges(holder: Any, referent: Any) -> bool:
    return isinstance(holder, (Value, Stub)) and holder._inputs is referent
