"""How many tensors are alive, and how many bytes their arrays hold, in the course of time."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from .census import arrays_of, storage
from .creation import listening

_POINTS = 1000


class Point(NamedTuple):
    """The live set at one moment; of a stretch of time, the moment with most bytes."""

    seconds: float
    tensors: int
    bytes: int


class Timeline:
    """Follows the live set from event to event (a tensor is made, a tensor is freed) while `recording`.

    A tensor's memory is counted when the next tensor is made: at its own event it has none yet.

    Attributes
    ----------
    points : list of Point
        At most some two thousand: neighbours are joined when there are more.
    peak : Point
        The moment with most bytes.
    """

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.peak = Point(0.0, 0, 0)
        self._start = time.perf_counter()
        self._tensors = 0
        self._bytes = 0
        self._stores: dict[int, list[int]] = {}  # of each piece of memory: how many tensors are over it, and its bytes
        self._lives: dict[int, tuple[Any, list[int]]] = {}
        self._last: Any = None
        self._every = 1  # events that one point stands for
        self._events = 0
        self._highest = self.peak

    @contextmanager
    def recording(self) -> Iterator[Timeline]:
        """Within it, events are followed."""
        self._start = time.perf_counter()
        with listening(self._born):
            yield self
        self._settle()
        self._event()

    def end(self, tensors: int, size: int) -> None:
        """Add the exact numbers of the end: that a parameter was given another array is no event."""
        self._tensors, self._bytes = tensors, size
        self._event()

    def _born(self, value: Any) -> None:
        self._settle()
        self._tensors += 1
        key = id(value)
        self._lives[key] = (weakref.ref(value, lambda _: self._died(key)), [])
        self._last = weakref.ref(value)
        self._event()

    def _settle(self) -> None:
        """Count the memory of the tensor made last: when it was announced it had none yet."""
        value = self._last() if self._last is not None else None
        self._last = None
        if value is None or getattr(value, "cached_data", None) is None:
            return
        owned = self._lives[id(value)][1]
        for array in arrays_of(value):
            owner, size = storage(array)
            store = self._stores.setdefault(id(owner), [0, size])
            if store[0] == 0:
                self._bytes += size
            store[0] += 1
            owned.append(id(owner))

    def _died(self, key: int) -> None:
        _, owned = self._lives.pop(key)
        self._tensors -= 1
        for store_id in owned:
            store = self._stores[store_id]
            store[0] -= 1
            if store[0] == 0:
                self._bytes -= store[1]
                del self._stores[store_id]
        self._event()

    def _event(self) -> None:
        point = Point(time.perf_counter() - self._start, self._tensors, self._bytes)
        if point.bytes >= self._highest.bytes:
            self._highest = point
        if point.bytes > self.peak.bytes:
            self.peak = point
        self._events += 1
        if self._events % self._every == 0:
            self.points.append(self._highest)
            self._highest = Point(0.0, 0, -1)
            if len(self.points) > 2 * _POINTS:
                pairs = zip(self.points[::2], self.points[1::2])
                self.points = [max(pair, key=lambda p: p.bytes) for pair in pairs]
                self._every *= 2
