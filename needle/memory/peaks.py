"""The highest level that memory reaches in a call, and which tensors were alive then."""

from __future__ import annotations

import sys
import tracemalloc
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import backend
from ..backend import Device
from .census import arrays_in, count, op_name
from .creation import listening


class Peak:
    """What `peak` measured. ``str()`` gives a table.

    Attributes
    ----------
    bytes : int
        The highest level above that at the start of the call.
    before, after : int
        Bytes at the start, and how much more there was at the end of the call (its result still being held).
    alive : list of (str, int)
        The tensors made in the call that were alive at the peak: op, shape and dtype, with the bytes of their arrays,
        largest first.
    result : object
        What the function returned.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self.before = 0
        self.after = 0
        self.alive: list[tuple[str, int]] = []
        self.result: Any = None

    def __repr__(self) -> str:
        return f"<Peak: {self.bytes:,} bytes>"

    def __str__(self) -> str:
        lines = [
            f"peak: {self.bytes:,} bytes above the start, {self.after:,} of them still there at the end; "
            f"{count(len(self.alive), 'tensor')} of this call alive at the peak"
        ]
        kinds: Counter = Counter()
        for text, size in self.alive:
            kinds[text] += size
        numbers = Counter(text for text, _ in self.alive)
        lines += [f"  {size:>12,} bytes  {numbers[text]} × {text}" for text, size in kinds.most_common(10)]
        return "\n".join(lines)


class _Life:
    """The time from a tensor's making to its end, counted in such events."""

    __slots__ = ("born", "died", "ref", "size", "text")

    def __init__(self, ref: Any, born: int):
        self.ref = ref
        self.born = born
        self.died = sys.maxsize
        self.text = ""
        self.size = 0

    def look(self) -> None:
        """Note what the tensor is, once that is known."""
        value = self.ref()
        if not self.text and value is not None and getattr(value, "cached_data", None) is not None:
            arrays = list(arrays_in(value.cached_data))
            self.size = sum(array.nbytes for array in arrays)
            self.text = f"{op_name(value)} {', '.join(f'{tuple(a.shape)} {a.dtype}' for a in arrays)}"


def peak(fn: Callable[..., Any], *args: Any, device: Device | None = None, **kwargs: Any) -> Peak:
    """Call ``fn(*args, **kwargs)`` and measure how much memory it needs at the most.

    Parameters
    ----------
    fn : callable
    *args, **kwargs
        What it is called with.
    device : Device, optional
        Whose memory is measured; the CPU's by default.

    Returns
    -------
    Peak

    Notes
    -----
    On the CPU `tracemalloc` measures: it knows of every array (NumPy reports them) and of every Python object too, so a
    graph's own objects, a few hundred bytes a node, are counted with the arrays. On a GPU it is what CuPy's memory pool
    has handed out. Both make the call slower.

    Examples
    --------
    >>> import numpy as np, needle as ndl
    >>> from needle import memory
    >>> x = ndl.Tensor(np.ones(100_000))  # 800,000 bytes
    >>> found = memory.peak(lambda: (x * 2).exp() * x)
    >>> round(found.bytes / 800_000)  # the gradient of exp reads its value, that of x * 2 does not
    2
    """
    found = Peak()
    level = _Pool(device or backend.cpu()) if device not in (None, backend.cpu()) else _Traced()
    lives: list[_Life] = []
    clock = 0
    last: _Life | None = None
    highest, highest_at = -1, 0

    def tick() -> None:
        nonlocal clock, highest, highest_at
        now = level.highest()
        if now > highest:  # reached since the last event
            highest, highest_at = now, clock
        clock += 1

    def born(value: Any) -> None:
        nonlocal last
        if last is not None:
            last.look()
        tick()
        life = last = _Life(None, clock)

        def died(_: Any) -> None:
            life.look()
            tick()
            life.died = clock

        life.ref = weakref.ref(value, died)
        lives.append(life)

    with level.measured(), listening(born):
        found.before = level.now()
        found.result = fn(*args, **kwargs)
        if last is not None:
            last.look()
        tick()
        found.after = level.now() - found.before
    found.bytes = max(highest - found.before, 0)
    for life in lives:
        life.look()
    at_peak = [life for life in lives if life.born <= highest_at < life.died and life.text]
    found.alive = sorted(((life.text, life.size) for life in at_peak), key=lambda pair: -pair[1])
    return found


class _Traced:
    """Memory of this process, as `tracemalloc` counts it."""

    @contextmanager
    def measured(self) -> Iterator[None]:
        running = tracemalloc.is_tracing()
        if not running:
            tracemalloc.start()
        tracemalloc.reset_peak()
        try:
            yield
        finally:
            if not running:
                tracemalloc.stop()

    def now(self) -> int:
        return tracemalloc.get_traced_memory()[0]

    def highest(self) -> int:
        return tracemalloc.get_traced_memory()[1]


class _Pool:
    """Memory that CuPy's pool has handed out on one GPU."""

    def __init__(self, device: Device):
        self._device = device
        self._pool = device.xp.get_default_memory_pool()
        self._highest = 0

    @contextmanager
    def measured(self) -> Iterator[None]:
        pool = self

        class Hook(self._device.xp.cuda.MemoryHook):  # type: ignore[name-defined]
            """Looks at the level after each allocation."""

            name = "needle.memory.peak"

            def malloc_postprocess(self, *, device_id: int, **_: Any) -> None:
                if device_id == pool._device.index:
                    pool._highest = max(pool._highest, pool.now())

        self._highest = self.now()
        with Hook():
            yield

    def now(self) -> int:
        with self._device.current():  # the pool tells of the current GPU
            return int(self._pool.used_bytes())

    def highest(self) -> int:
        return self._highest
