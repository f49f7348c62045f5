"""Where tensors come from: being told of each new one, and the line of the user's code that made it.

Nobody is told anything while nobody asks: the engine makes every tensor with ``autograd._new``, and only as long as
there are listeners that name is bound to a function which calls them.
"""

from __future__ import annotations

import linecache
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, NamedTuple

from .. import autograd
from ..autograd import Tensor, Value

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

Listener = Callable[[Any], None]

_lock = threading.Lock()
_listeners: tuple[Listener, ...] = ()
_plain_new = autograd._new
_plain_init = Tensor.__init__


def _announcing_new(cls: type) -> Any:
    value: Any = _plain_new(cls)
    for listener in _listeners:
        listener(value)
    return value


def _announcing_init(self: Tensor, *args: Any, **kwargs: Any) -> None:
    for listener in _listeners:
        listener(self)
    _plain_init(self, *args, **kwargs)


def _listen(listeners: tuple[Listener, ...]) -> None:
    global _listeners
    _listeners = listeners
    autograd._new = _announcing_new if listeners else _plain_new
    Tensor.__init__ = _announcing_init if listeners else _plain_init  # type: ignore[method-assign]


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have `listener` called with every new `Value` before it is filled in."""
    with _lock:
        _listen(_listeners + (listener,))
    try:
        yield
    finally:
        with _lock:
            last = len(_listeners) - 1 - _listeners[::-1].index(listener)
            _listen(_listeners[:last] + _listeners[last + 1 :])


class Origin(NamedTuple):
    """Where a tensor was made.

    Attributes
    ----------
    filename, line, function : str, int, str
        The innermost place outside of needle.
    backward_of : str or None
        For a tensor that backward made: the op whose gradient it belongs to.
    forward : Origin or None
        Where that op's own node was made, if that was tracked.
    """

    filename: str
    line: int
    function: str
    backward_of: str | None = None
    forward: Origin | None = None

    @property
    def place(self) -> str:
        """File (relative to the working directory if it is in it) and line."""
        return place_of(self.filename, self.line)

    @property
    def source(self) -> str:
        """The line itself; empty if its file cannot be read."""
        return linecache.getline(self.filename, self.line).strip()

    def __str__(self) -> str:
        text = f"{self.place} in {self.function}"
        if self.source:
            text += f": {self.source}"
        if self.backward_of:
            text += f"  [backward of {self.backward_of}"
            text += f", {self.forward.place}]" if self.forward else "]"
        return text


def place_of(filename: str, line: int) -> str:
    """``file:line``, the file relative to the working directory if it is in it."""
    relative = os.path.relpath(filename) if os.path.isabs(filename) else filename
    return f"{filename if relative.startswith(os.pardir) else relative}:{line}"


# By the id of the weak reference to the tensor, which is kept here so that its id stays its own. A graph that keeps a
# stub of a tensor instead of the tensor has that same weak reference.
_origins: dict[int, tuple[weakref.ref, Origin]] = {}
_room = 1000  # how many there may be before those of tensors that are gone are looked for


def origin(tensor: Any) -> Origin | None:
    """Where `tensor` was made, if that was while `track` was on."""
    ref = tensor.ref if type(tensor) is autograd.Stub else weakref.ref(tensor)
    return _origins[id(ref)][1] if id(ref) in _origins else None


def _record_origin(value: Value) -> None:
    global _room
    ref = weakref.ref(value)
    _origins[id(ref)] = (ref, here(sys._getframe(2)))
    if len(_origins) > _room:
        del ref
        for key in [key for key, kept in _origins.items() if kept[0]() is None and sys.getrefcount(kept[0]) <= 2]:
            del _origins[key]
        _room = max(1000, 2 * len(_origins))


@contextmanager
def track() -> Iterator[None]:
    """Within it, it is remembered where each tensor is made; `origin` and all reports then name the line.

    A context manager and decorator. It costs a few microseconds for each tensor, and nothing after its end.

    Examples
    --------
    >>> import needle as ndl
    >>> from needle import memory
    >>> with memory.track():
    ...     y = ndl.Tensor([1.0]) * 2
    >>> memory.origin(y).function
    '<module>'
    """
    with listening(_record_origin):
        yield


def here(frame: FrameType | None) -> Origin:
    """The innermost place outside of needle at or below `frame`, and what backward is busy with there."""
    place = None
    summing = False
    remaining = _GRADIENT_DEPTH
    while frame is not None and (place is None or remaining):
        code = frame.f_code
        if code is _PROPAGATE:
            break
        if place is not None:
            remaining -= 1
        elif not code.co_filename.startswith(PACKAGE):
            place = (code.co_filename, frame.f_lineno, _function_name(frame))
        summing = summing or code is _SUM
        frame = frame.f_back
    if frame is None or frame.f_code is not _PROPAGATE:
        return Origin(*(place or ("<needle>", 0, "needle")))
    if place is None:
        place = here(frame.f_back)[:3]
    if summing:
        return Origin(*place, "a sum of gradients")
    node = locals_of(frame).get("node")
    op = getattr(node, "op", None)
    return Origin(*place) if node is None or op is None else Origin(*place, type(op).__name__, origin(node))


# An op of the user's own is called by backward: its gradient is found so many calls further out at most.
_GRADIENT_DEPTH = 8

_PROPAGATE: CodeType = autograd._propagate.__code__
_SUM: CodeType = autograd.sum_node_list.__code__


def _function_name(frame: FrameType) -> str:
    """The function's name with its class, which a code object knows since Python 3.11."""
    code = frame.f_code
    if hasattr(code, "co_qualname"):
        return code.co_qualname
    owner = locals_of(frame).get("self") if code.co_varnames[:1] == ("self",) else None
    return code.co_name if owner is None else f"{type(owner).__qualname__}.{code.co_name}"


def locals_of(frame: FrameType) -> dict[str, Any]:
    """The local variables of a running function, as a new dictionary.

    Up to Python 3.12, asking a function's frame for its locals leaves a dictionary in the frame that keeps them alive
    until the function returns. A tool that looks for who keeps what alive must not do that: it is emptied.
    """
    found = frame.f_locals
    result = dict(found)
    # The frame, this function's `found` and the argument hold it; anybody else has called locals() and wants it.
    if is_function(frame) and type(found) is dict and sys.getrefcount(found) <= 3:
        found.clear()
    return result


def is_function(frame: FrameType) -> bool:
    """Whether it is a function that runs, with variables of its own, and not the code of a module or class."""
    return bool(frame.f_code.co_flags & 0x1)  # inspect.CO_OPTIMIZED
