"""What an object holds: every array under its attributes, by name."""

from __future__ import annotations

import types
from collections import deque
from typing import Any, NamedTuple

from ..autograd import Value
from ..backend import is_array
from .census import arrays_in, storage
from .naming import attributes_of, short

_NOT_ENTERED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, str, bytes)


class Holding(NamedTuple):
    """An array that an object holds: by what name, of which shape and dtype, and the bytes of its memory."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype} {self.shape}, {self.bytes:,} bytes"


def held_by(holder: Any) -> list[Holding]:
    """Every array that `holder` holds in attributes, lists, dictionaries and objects there.

    Parameters
    ----------
    holder : object
        Such as an optimizer or a module.

    Returns
    -------
    list of Holding
        Each memory once, under the first name; what is behind the graph of a tensor is not entered.

    Examples
    --------
    >>> import needle as ndl
    >>> from needle import memory
    >>> w = ndl.Tensor([1.0, 2.0])
    >>> class Momentum:
    ...     def __init__(self):
    ...         self.params = [w]
    ...         self.u = {0: ndl.Tensor([0.0, 0.0], dtype="float32")}
    >>> for holding in memory.held_by(Momentum()):
    ...     print(holding)
    Momentum.params[0]: float64 (2,), 16 bytes
    Momentum.u[0]: float32 (2,), 8 bytes
    """
    found: list[Holding] = []
    seen: set[int] = set()
    counted: set[int] = set()
    stack: list[tuple[str, Any]] = [(type(holder).__name__, holder)]
    kept = []  # so that no id is used twice
    while stack:
        name, item = stack.pop()
        if id(item) in seen or isinstance(item, _NOT_ENTERED):
            continue
        seen.add(id(item))
        kept.append(item)
        arrays = list(arrays_in(item.cached_data)) if isinstance(item, Value) else [item] if is_array(item) else []
        for array in arrays:
            owner, size = storage(array)
            if id(owner) not in counted:
                counted.add(id(owner))
                found.append(Holding(name, tuple(array.shape), str(array.dtype), size))
        inner: list[tuple[str, Any]]
        if isinstance(item, Value):
            inner = [(f"{name}.grad", item.grad)] if item.grad is not None else []
        elif isinstance(item, dict):
            inner = [(f"{name}[{short(key)}]", value) for key, value in item.items()]
        elif isinstance(item, (list, tuple, deque)):
            inner = [(f"{name}[{i}]", value) for i, value in enumerate(item)]
        else:
            inner = [(f"{name}.{attribute}", value) for attribute, value in attributes_of(item)] if not arrays else []
        stack += inner[::-1]
    return found
