"""Whether a training step leaves tensors behind; and if it does: which, made where, held by whom, and what helps."""

from __future__ import annotations

import functools
import gc
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from .advice import advice
from .census import all_arrays, bytes_of, count, live_nodes, op_name, storage, token
from .cost import shapes
from .creation import Origin, origin, track
from .holders import References, local_variables
from .naming import Chain


class GrowthError(AssertionError):
    """What `no_growth` raises; the text is the report.

    Attributes
    ----------
    steps : int
        How many steps were looked at.
    tensors, bytes : int
        How many tensors, and bytes of arrays, more there were after these steps, garbage in cycles not counted.
    in_cycles : int
        Tensors that only the cyclic collector could free.
    chains : list of Chain
        What holds some of them.
    advice : list of str
        What helps.
    """

    def __init__(self, text: str, steps: int, tensors: int, size: int, in_cycles: int, chains: list[Chain], tips: list):
        super().__init__(text)
        self.steps = steps
        self.tensors = tensors
        self.bytes = size
        self.in_cycles = in_cycles
        self.chains = chains
        self.advice = tips


class Moment:
    """What is alive at one moment, held weakly."""

    def __init__(self) -> None:
        nodes = live_nodes()
        self.count = len(nodes)
        self.kinds = Counter(_kind(node) for node in nodes)
        self.tokens = {id(ref): ref for ref in map(token, nodes)}
        self.arrays: dict[int, Any] = {}
        self.shapes: Counter = Counter()
        arrays = all_arrays(local_variables())
        self.bytes = bytes_of(arrays)
        seen: set[int] = set()
        for array in arrays:
            owner, _ = storage(array)
            if id(owner) not in seen:
                seen.add(id(owner))
                self.shapes[(str(array.dtype), tuple(array.shape))] += 1
                self.arrays[id(array)] = weakref.ref(array)

    def new_nodes(self) -> dict[tuple, list[Any]]:
        """Those that are alive now and were not then, by kind, in the order in which they were made."""
        found: dict[tuple, list[Any]] = {}
        for node in live_nodes():
            if id(token(node)) not in self.tokens:
                found.setdefault(_kind(node), []).append(node)
        return found


def _kind(node: Any) -> tuple[str, str, Origin | None]:
    """What tensors are grouped by: op, shapes and the line that made them."""
    return op_name(node), shapes(node), origin(node)


class no_growth:
    """Checks that steps leave no tensor, and no byte of an array, behind.

    Steps to warm up are made (optimizers make their state in the first), garbage is collected, tensors and bytes of
    arrays are counted; the steps are made, with the cyclic collector off; garbage is collected, and everything is
    counted again. The numbers are exact, and nothing that was there before matters.

    Parameters
    ----------
    steps : int
        How many steps are looked at.
    warmup : int
        How many steps are made before.
    cycles : bool
        Whether tensors that are left in reference cycles, to be freed by the cyclic collector alone, are an error too.

    Raises
    ------
    GrowthError
        If something was left behind. The text says how many tensors a step adds, which ops and lines made them, what
        holds them, and what helps in the cases that are well known.
    ValueError
        If `steps` or `warmup` is out of its range.

    Notes
    -----
    A node that a graph holds without its tensor counts as a tensor. A loop holds the tensors of its last round in its
    variables, which is no growth: they are there at both counts.

    Examples
    --------
    As a decorator of a function that makes one step; each call of it makes and checks all steps:

    >>> import needle as ndl
    >>> from needle import memory
    >>> w = ndl.Tensor([1.0, 2.0])
    >>> @memory.no_growth(steps=5)
    ... def step():
    ...     loss = (w * w).sum()
    ...     loss.backward(create_graph=False)
    >>> step()

    As a context manager around a loop that makes the steps (`warmup` and `steps` of them):

    >>> with memory.no_growth(steps=5) as steps:
    ...     for _ in steps:
    ...         loss = (w * w).sum()
    ...         loss.backward(create_graph=False)

    or around code that is looked at once, as it is:

    >>> history = []
    >>> with memory.no_growth():
    ...     history.append(w * 2)
    Traceback (most recent call last):
    needle.memory.growth.GrowthError: 1 tensor and 16 bytes were left behind
    ...
    """

    def __init__(self, steps: int = 10, warmup: int = 2, cycles: bool = True):
        for name, value, least in (("steps", steps, 1), ("warmup", warmup, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"no_growth: {name} is a whole number of at least {least}, got {value!r}")
        self._steps = steps
        self._warmup = warmup
        self._cycles = cycles
        self._named: list[Any] = []  # what a report may start from
        self._open = ExitStack()
        self._before: Moment | None = None
        self._entered = self._looped = self._judged = False
        self._error: GrowthError | None = None

    # -- three ways to use it

    def __call__(self, step: Callable[..., Any]) -> Callable[..., None]:
        """`step`, made `warmup` + `steps` times and checked when it is called."""

        @functools.wraps(step)
        def checked(*args: Any, **kwargs: Any) -> None:
            check = no_growth(self._steps, self._warmup, self._cycles)
            check._named = [step, getattr(step, "__self__", step)]
            check._looped = True
            with check as rounds:
                for _ in rounds:
                    step(*args, **kwargs)

        return checked

    def __enter__(self) -> no_growth:
        self._entered = True
        self._open.enter_context(track())
        if not self._looped:
            self._begin()
        return self

    def __iter__(self) -> Iterator[int]:
        if not self._entered:
            raise RuntimeError("no_growth: the steps are looped over within its with statement")
        self._looped = True
        yield from range(self._warmup)
        self._begin()
        yield from range(self._warmup, self._warmup + self._steps)
        self._error = self._judge(self._steps)
        self._judged = True

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if kind is None and not self._looped:
                self._error = self._judge(0)
        finally:
            self._open.close()
        found, unfinished = self._error, self._looped and not self._judged
        self._error = self._before = None
        self._entered = self._looped = self._judged = False
        if kind is None and unfinished:
            raise RuntimeError("no_growth: the loop was left before all steps were made, so nothing was checked")
        if kind is None and found is not None:
            raise found

    # -- counting

    def _begin(self) -> None:
        gc.collect()
        self._before = Moment()
        if gc.isenabled():
            gc.disable()
            self._open.callback(gc.enable)

    def _judge(self, steps: int) -> GrowthError | None:
        """Count again; `steps` is 0 for code that was run once."""
        before = self._before or Moment()
        with_garbage = Moment()
        if with_garbage.count <= before.count and with_garbage.bytes <= before.bytes:
            return None
        kinds = [(k, n - before.kinds[k]) for k, n in with_garbage.kinds.items() if n > before.kinds[k]]
        kinds.sort(key=_rank)
        chains = self._chains(before, with_garbage, kinds)
        gc.collect()
        after = Moment()
        in_cycles = with_garbage.count - after.count
        tensors, size = after.count - before.count, after.bytes - before.bytes
        if tensors <= 0 and size <= 0 and not (in_cycles and self._cycles):
            return None
        return _report(steps, max(tensors, 0), max(size, 0), in_cycles, kinds, chains)

    def _chains(self, before: Moment, now: Moment, kinds: list) -> list[Chain]:
        """What holds the tensors of the kinds that grew, or if none did, the new arrays; one answer for each holder."""
        references = References(not kinds, self._named)
        chains: dict[tuple, Chain] = {}

        def explain(item: Any) -> None:
            chain = references.explain(item)
            chains.setdefault((chain.kind, chain.root, *(chain.parts[:1] if chain.kind == "named" else ())), chain)

        if not kinds:
            old = {id(array) for array in (ref() for ref in before.arrays.values()) if array is not None}
            for array in [ref() for ref in now.arrays.values()][::-1]:
                if array is not None and id(array) not in old and len(chains) < _HOLDERS:
                    explain(array)
            return list(chains.values())
        fresh = before.new_nodes()
        # The oldest of a kind: those of the last step are held by a loop's variables anyway.
        oldest = [fresh[kind][0] for kind, _ in kinds if kind in fresh]
        alone = [value for value in oldest if not references.in_a_graph(value)]  # not found by way of another
        for value in {id(value): value for value in [*oldest[:2], *alone[:_HOLDERS]]}.values():
            explain(value)
        return list(chains.values())[:_HOLDERS]


def _rank(kind_and_number: tuple) -> tuple:
    """What a report lists first: what the forward pass made, what there is most of, what stands first in its file."""
    (name, shape, place), number = kind_and_number
    in_backward = place is not None and place.backward_of is not None
    return in_backward, -number, place.line if place is not None else 0, name, shape


_HOLDERS = 3  # how many a report names


def _report(steps: int, tensors: int, size: int, in_cycles: int, kinds: list, chains: list[Chain]) -> GrowthError:
    def each(number: int) -> float:
        return number / steps if steps else number

    by = f" by {count(steps, 'step')}" if steps else ""
    lines = []
    if tensors or size:
        a_step = f": {count(each(tensors), 'tensor')} and {count(each(size), 'byte')} a step" if steps else ""
        lines.append(f"{count(tensors, 'tensor')} and {count(size, 'byte')} were left behind{by}{a_step}")
    if in_cycles:
        a_step = f" ({each(in_cycles):,g} a step)" if steps else ""
        lines.append(
            f"{count(in_cycles, 'tensor')} were left in reference cycles{by}{a_step}: only the collector frees them"
        )
    if kinds:
        lines.append("made" + (" in each step:" if steps else ":"))
        for (name, shapes, place), number in kinds[:8]:
            lines.append(f"  {each(number):,g} × {name} {shapes}" + (f"  {place}" if place else ""))
        if len(kinds) > 8:
            others = each(sum(number for _, number in kinds[8:]))
            lines.append(f"  {others:,g} of {count(len(kinds) - 8, 'other kind')}")
    if chains:
        lines.append("held by:")
        lines += [f"  {chain}" for chain in chains]
    tips = list(dict.fromkeys(tip for chain in chains for tip in advice(chain)))
    if tips:
        lines.append("what helps:")
        lines += [f"  {tip}" for tip in tips]
    return GrowthError("\n".join(lines), steps, tensors, size, in_cycles, chains, tips)
