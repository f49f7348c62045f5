"""Which tensors are alive, and how much memory their arrays hold.

Nothing is counted while nobody asks. The cyclic garbage collector of Python has a list of every object that can refer
to another one, tensors among them; a census goes through that list.
"""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from .. import backend
from ..autograd import Stub, Value


def subclasses(cls: type) -> set[type]:
    """`cls` and every class derived from it."""
    found = {cls}
    stack = [cls]
    while stack:
        sub: type
        for sub in type.__subclasses__(stack.pop()):
            if sub not in found:
                found.add(sub)
                stack.append(sub)
    return found


def array_types() -> set[type]:
    """The types of arrays: NumPy's, and CuPy's if it is in use."""
    return set().union(*[subclasses(kind) for kind in backend.array_types()])


def live_values() -> list[Value]:
    """Every `Value` that is alive, garbage in cycles included."""
    types = subclasses(Value)
    return [item for item in gc.get_objects() if type(item) in types and _is_made(item)]


def _is_made(node: Any) -> bool:
    """False for what is just being made, in another thread."""
    return (
        hasattr(node, "_inputs") and hasattr(node, "cached_data") and (type(node) is not Stub or hasattr(node, "ref"))
    )


def live_nodes() -> list[Any]:
    """Every `Value`, and every node of a graph whose tensor is gone: the graph has a `Stub` in its place."""
    types = subclasses(Value) | {Stub}
    found = [item for item in gc.get_objects() if type(item) in types and _is_made(item)]
    return [item for item in found if type(item) is not Stub or (item.op is not None and item.ref() is None)]


def token(node: Any) -> weakref.ref:
    """What identifies a node for good, dead or alive: the weak reference to its tensor."""
    return node.ref if type(node) is Stub else weakref.ref(node)


def arrays_in(data: Any) -> Iterator[Any]:
    """The arrays of a value: one, or the items of a tuple, or none if it was not computed yet."""
    if isinstance(data, (tuple, list)):
        for item in data:
            yield from arrays_in(item)
    elif backend.is_array(data):
        yield data


def arrays_of(value: Any) -> Iterator[Any]:
    """The arrays of a node, and those that it holds of what it was computed from, whoever has the tensors."""
    yield from arrays_in(value.cached_data)
    for edge in value._inputs or ():
        if type(edge) is Stub:
            yield from arrays_in(edge.cached_data)


def storage(array: Any) -> tuple[Any, int]:
    """The object that owns the memory of `array` (itself, or what it is a view of) and that memory's bytes."""
    size = array.nbytes
    while True:
        base = getattr(array, "base", None)
        if base is None:
            return array, array.nbytes
        if not backend.is_array(base):  # a buffer of something else: how large it is cannot be said
            return base, size
        array, size = base, max(size, base.nbytes)


def bytes_of(arrays: Iterable[Any]) -> int:
    """Bytes of the memory behind `arrays`; arrays that share memory are counted once."""
    sizes: dict[int, int] = {}
    for array in arrays:
        owner, size = storage(array)
        sizes[id(owner)] = max(size, sizes.get(id(owner), 0))
    return sum(sizes.values())


def op_name(value: Any) -> str:
    """The name of the op that computed `value`; for a leaf the name of its class."""
    return type(value).__name__ if value.op is None else type(value.op).__name__


class Tensors(list):
    """A list of tensors made by these tools, which `why_alive` does not count as a holder."""


class Census:
    """The tensors that are alive at one moment, by what they are.

    It holds them weakly: looking at them keeps none alive.

    Attributes
    ----------
    count : int
        How many there are.
    stubs : int
        How many nodes graphs hold without their tensors: of these they keep what gradients need.
    bytes : int
        Bytes of the arrays of both, and of those that graphs hold of leaves; arrays that share memory are counted once.
    with_graph : int
        How many were computed by a recorded op, so that they hold a graph.
    by_op, by_shape, by_dtype, by_device : Counter
        How many there are of each kind. Leaves stand under the name of their class.
    """

    def __init__(self, nodes: Iterable[Any]):
        nodes = [node for node in nodes if hasattr(node, "cached_data")]  # one in the making has none yet
        values = [node for node in nodes if isinstance(node, Value)]
        self._refs = [weakref.ref(v) for v in values]
        self.count = len(values)
        self.stubs = len(nodes) - len(values)
        self.bytes = bytes_of(array for node in nodes for array in arrays_of(node))
        self.with_graph = sum(v.op is not None for v in values)
        self.by_op = Counter(op_name(v) for v in values)
        self.by_shape: Counter = Counter()
        self.by_dtype: Counter = Counter()
        self.by_device: Counter = Counter()
        for v in values:
            for array in arrays_in(v.cached_data):
                self.by_shape[tuple(array.shape)] += 1
                self.by_dtype[str(array.dtype)] += 1
                self.by_device[str(backend.device_of(array))] += 1

    @property
    def tensors(self) -> list[Value]:
        """Those that are still alive."""
        return Tensors(v for v in (ref() for ref in self._refs) if v is not None)

    def __repr__(self) -> str:
        return f"<Census: {self.count} tensors, {self.bytes:,} bytes>"

    def __str__(self) -> str:
        lines = [
            f"{count(self.count, 'live tensor')}, {self.bytes:,} bytes; {self.with_graph} computed by a recorded op"
            + (f"; graphs hold {count(self.stubs, 'node')} more" if self.stubs else "")
        ]
        for title, counter in (
            ("op", self.by_op),
            ("shape", self.by_shape),
            ("dtype", self.by_dtype),
            ("device", self.by_device),
        ):
            common = sorted(counter.items(), key=lambda item: (-item[1], str(item[0])))[:8]
            kinds = ", ".join(f"{number} × {kind}" for kind, number in common)
            more = f", {len(counter) - 8} more" if len(counter) > 8 else ""
            lines.append(f"  by {title + ':':8}{kinds}{more}")
        return "\n".join(lines)


def count(number: float, noun: str) -> str:
    """``1 tensor``, ``2,000 tensors``, ``1.5 tensors``."""
    return f"{number:,.10g} {noun}{'' if number == 1 else 's'}"


def live_tensors() -> Census:
    """Every tensor that is alive now, in reference cycles too that the collector has not come by yet.

    Returns
    -------
    Census

    Examples
    --------
    >>> import needle as ndl
    >>> from needle import memory
    >>> before = memory.live_tensors()
    >>> x = ndl.Tensor([[1.0, 2.0]])
    >>> y = x * x
    >>> after = memory.live_tensors()
    >>> after.count - before.count, after.by_op["EWiseMul"] - before.by_op["EWiseMul"]
    (2, 1)
    """
    return Census(live_nodes())


def all_arrays(frames: Iterable[dict] = ()) -> list[Any]:
    """Every array that Python objects refer to, inside of tensors or not.

    Parameters
    ----------
    frames : iterable of dict
        Local variables of running functions, which the collector does not know.
    """
    types = array_types()
    wanted = types | {dict, tuple}
    found: dict[int, Any] = {}
    seen: set[int] = set()
    # What an array itself refers to, such as the array that it is a view of, is found by `storage`.
    referents = gc.get_referents(*[item for item in gc.get_objects() if type(item) not in types])
    for variables in frames:
        referents.extend(variables.values())
    while referents:
        # A dictionary or tuple of nothing but arrays, numbers and strings is not in the collector's list.
        some = {id(item): item for item in referents if type(item) in wanted}
        found.update((key, item) for key, item in some.items() if type(item) in types)
        inner = [i for k, i in some.items() if k not in seen and type(i) not in types and not gc.is_tracked(i)]
        seen.update(map(id, inner))
        referents = gc.get_referents(*inner)
    return list(found.values())
