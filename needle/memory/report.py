"""What is to be said about the memory of a program at its end."""

from __future__ import annotations

import gc
from collections import Counter
from typing import Any

from .census import Census, arrays_of, bytes_of, count, live_nodes
from .cost import GraphSummary, summarize
from .creation import origin
from .holders import References
from .naming import Chain
from .timeline import Timeline


class Report:
    """The live set, where it was made, and the largest graphs with what holds them. ``str()`` gives a text.

    Parameters
    ----------
    title : str
    timeline : Timeline
    top : int
        How many lines and graphs are listed.

    Attributes
    ----------
    census : Census
    in_cycles : int
        Tensors that only the cyclic collector could free; making the report frees them.
    lines : list of (str, int, int)
        Lines that made tensors which are still alive: place and source, number of tensors, bytes of their arrays.
    graphs : list of (int, GraphSummary, Chain)
        The graphs that keep most bytes alive, those in one container taken together: how many, what they are, and what
        holds the first.
    """

    def __init__(self, title: str, timeline: Timeline, top: int = 5):
        self.title = title
        self.timeline = timeline
        before = len(live_nodes())
        gc.collect()
        references = References()
        values = live_nodes()
        self.in_cycles = before - len(values)
        self.census = Census(values)
        timeline.end(self.census.count, self.census.bytes)
        self.lines = _by_line(values)[:top]
        self.graphs = _largest(values, references, top)

    def __str__(self) -> str:
        peak = self.timeline.peak
        parts = [
            f"memory of {self.title}",
            f"peak: {count(peak.tensors, 'tensor')} with {peak.bytes:,} bytes, {peak.seconds:.2f} s after the start",
            f"at the end: {self.census}",
        ]
        if self.in_cycles:
            parts.append(f"{count(self.in_cycles, 'tensor')} more were in reference cycles, and are freed now")
        if self.lines:
            parts.append("made by:")
            parts += [f"  {size:>12,} bytes in {count(number, 'tensor')}  {line}" for line, number, size in self.lines]
        if self.graphs:
            parts.append("largest graphs:")
            for number, summary, chain in self.graphs:
                parts.append(f"  {count(number, 'graph')} held by {chain}")
                parts += [f"    {line}" for line in str(summary).splitlines()]
        return "\n".join(parts)


def _by_line(values: list[Any]) -> list[tuple[str, int, int]]:
    arrays: dict[str, list[Any]] = {}
    numbers: Counter = Counter()
    for value in values:
        made = origin(value)
        place = str(made) if made is not None else "(before the tracking began)"
        numbers[place] += 1
        arrays.setdefault(place, []).extend(arrays_of(value))
    found = [(place, number, bytes_of(arrays[place])) for place, number in numbers.items()]
    return sorted(found, key=lambda line: (-line[2], -line[1], line[0]))


def _largest(values: list[Any], references: References, top: int) -> list[tuple[int, GraphSummary, Chain]]:
    """The graphs that end in tensors which nothing was computed from, those in one container taken together."""
    heads = [v for v in values if v.op is not None and v._inputs and not references.in_a_graph(v)]
    holders = references.holders_of(heads)
    groups: dict[int, list[Any]] = {}
    for head in heads:
        groups.setdefault(id(holders.get(id(head), head)), []).append(head)
    summaries = [(summarize(group, top=3), group) for group in groups.values()]
    summaries.sort(key=lambda pair: -pair[0].bytes)
    found = []
    for summary, group in summaries[:top]:
        holder, members = holders.get(id(group[0])), set(map(id, group))
        in_order = holder if isinstance(holder, (list, tuple)) else group
        first = next(item for item in in_order if id(item) in members)
        found.append((len(group), summary, references.explain(first)))
    return found
