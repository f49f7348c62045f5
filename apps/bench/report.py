"""Turns the measured seconds into tables: aligned text for a terminal, Markdown for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from apps.bench.harness import Result
from apps.bench.workload import PEERS, Comparison


@dataclass(frozen=True)
class Line:
    """One contender's figures in one comparison; seconds per unit of work.

    `ratio` is the median over the rounds of the subject's time divided by this contender's, `best_ratio`
    the quotient of the two best times; both are None for the subject itself and where the subject is missing.
    A floor on a GPU is a line too.
    """

    label: str
    best: float
    median: float
    ratio: float | None = None
    best_ratio: float | None = None
    aim: str = ""


def lines_of(result: Result, comparison: Comparison) -> list[Line]:
    """Give the figures of one comparison: the subject first, then those it is compared with, as far as they ran."""
    seconds = {label: times for label, times in result.seconds.items() if times}
    subject = seconds.get(comparison.subject)
    lines = []
    on_cpu = result.device == "cpu"
    if subject is not None:
        aim = ""
        if on_cpu and comparison.aim_seconds is not None:
            aim = _aim(min(subject), comparison.aim_seconds, f"≤ {_time(comparison.aim_seconds)}")
        lines.append(Line(comparison.subject, min(subject), median(subject), aim=aim))
    for label in comparison.against:
        times = seconds.get(label)
        if times is None:
            continue
        if subject is None:
            lines.append(Line(label, min(times), median(times)))
            continue
        ratio = median(ours / theirs for ours, theirs in zip(subject, times))
        limit = comparison.aims.get(label) if on_cpu else None
        aim = "" if limit is None else _aim(ratio, limit, f"≤ {limit:.2f}×")
        lines.append(Line(label, min(times), median(times), ratio, min(subject) / min(times), aim))
    if subject is not None:
        for label, floor in result.floors.items():
            lines.append(Line(label, floor, floor, median(subject) / floor, min(subject) / floor))
    return lines


def text_table(results: Iterable[Result]) -> str:
    """Give the aligned table: a block per comparison, a line per contender."""
    head = ("", "best", "median", "ratio", "of bests", "aim")
    rows: list[tuple[str, ...]] = [head]
    for result in results:
        for comparison in result.workload.comparisons:
            lines = lines_of(result, comparison)
            if not lines:
                continue
            rows += [("",), (f"{comparison.title} (per {result.workload.unit})",)]
            rows += [
                (
                    f"  {line.label}",
                    _time(line.best),
                    _time(line.median),
                    _ratio(line.ratio),
                    _ratio(line.best_ratio),
                    line.aim,
                )
                for line in lines
            ]
    return "\n".join(_aligned(rows))


def markdown_table(results: Iterable[Result]) -> str:
    """Give a Markdown table: a row per comparison, a column per peer, best / median (paired ratio) in each cell."""
    results = list(results)
    labels = [label for r in results for label in (*r.seconds, *r.floors)]
    present = [p for p in (*PEERS, "floor") if any(label.split()[0] == p for label in labels)]
    head = ["workload", "per", *present, "aim"]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for result in results:
        for comparison in result.workload.comparisons:
            cells: dict[str, list[str]] = {peer: [] for peer in present}
            aims = []
            for line in lines_of(result, comparison):
                peer, _, variant = line.label.partition(" ")
                figures = f"{_time(line.best)} / {_time(line.median)}" if peer != "floor" else _time(line.best)
                own = peer == comparison.subject.partition(" ")[0]
                name = "" if line.label == comparison.subject else variant or ("default" if own else "")
                ratio = "" if line.ratio is None else f" (**{_ratio(line.ratio)}**)"
                cells[peer].append(f"{name + ': ' if name else ''}{figures}{ratio}")
                if line.aim:
                    aims.append(f"{line.label}: {line.aim}" if line.ratio is not None else line.aim)
            row = [comparison.title, result.workload.unit, *("<br>".join(cells[p]) or "–" for p in present)]
            rows.append("| " + " | ".join([*row, "<br>".join(aims) or "–"]) + " |")
    return "\n".join(rows)


def problems(results: Iterable[Result]) -> str:
    """Give what went wrong, one paragraph each: failed contenders and numbers that do not agree."""
    paragraphs = []
    for result in results:
        name = result.workload.name
        paragraphs += [f"{name}: {label} failed: {text}" for label, text in result.failures.items()]
        paragraphs += [f"{name}: numbers disagree: {line}" for line in result.disagreements]
    return "\n\n".join(paragraphs)


def _aim(value: float, limit: float, text: str) -> str:
    return f"{text} {'met' if value <= limit else 'missed'}"


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}×"


def _time(seconds: float) -> str:
    """Write a time with three significant digits in the unit that suits it.

    >>> _time(0.00123), _time(4.5e-7), _time(0.15)
    ('1.23 ms', '0.450 µs', '150 ms')
    """
    value, unit = (seconds * 1e3, "ms") if seconds >= 1e-3 else (seconds * 1e6, "µs")
    digits = 3 if value < 1 else 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f} {unit}"


def _aligned(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Pad the columns: labels and aims to the left, figures to the right. A row of one cell spans the table."""
    full = [row for row in rows if len(row) > 1]
    widths = [max(len(row[i]) for row in full) for i in range(len(full[0]))]
    for row in rows:
        if len(row) == 1:
            yield row[0]
            continue
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        yield "  ".join([*cells, row[-1]]).rstrip()
