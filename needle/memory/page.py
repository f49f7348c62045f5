"""A `Report` as one HTML page that needs nothing else: no script, no font, no picture from anywhere."""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import pairwise

from .census import count
from .report import Report
from .timeline import Point

_STYLE = """
:root { color-scheme: light dark; --text: #1c2330; --quiet: #5c6675; --line: #d9dee6; --page: #fff; --blue: #2f6fd0;
  --pale: #e9f0fb; --orange: #c2600c; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e9ef; --quiet: #98a2b3; --line: #333b48; --page: #14181f;
  --blue: #7aa9f0; --pale: #1d2a3f; --orange: #f0a35a; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); max-width: 62rem;
  margin: 2rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.4rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
p { color: var(--quiet); margin: .2rem 0 .8rem; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: 1rem; margin: 1.2rem 0; }
dl div { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .9rem; }
dt { color: var(--quiet); font-size: .85rem; } dd { margin: 0; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; font-weight: 600; color: var(--quiet); }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code { font: 13px/1.45 ui-monospace, monospace; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--quiet); font-size: 12px; }
.area { fill: var(--pale); stroke: none; } .curve { fill: none; stroke: var(--blue); stroke-width: 1.5; }
.grid { stroke: var(--line); } .peak { fill: var(--orange); } .bar { fill: var(--blue); } .back { fill: var(--pale); }
.graph { border: 1px solid var(--line); border-radius: .5rem; padding: .7rem 1rem; margin: .8rem 0; }
pre { overflow-x: auto; margin: .3rem 0 0; } pre code { overflow-wrap: normal; }
.graph p { color: var(--text); }
"""


def page(report: Report) -> str:
    """The page's text.

    Parameters
    ----------
    report : Report

    Returns
    -------
    str
        HTML, in UTF-8; everything that comes from the program (names, source lines) is escaped.
    """
    census, peak = report.census, report.timeline.peak
    cards = [
        ("live at the end", count(census.count, "tensor")),
        ("their arrays", size(census.bytes)),
        ("computed by a recorded op", f"{census.with_graph:,}"),
        ("highest level", size(peak.bytes)),
        ("in reference cycles", f"{report.in_cycles:,}"),
    ]
    body = [
        f"<h1>Memory of {html.escape(report.title)}</h1>",
        "<dl>" + "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in cards) + "</dl>",
        "<h2>The live set over time</h2>",
        "<p>Bytes of the arrays of live tensors and of the leaves that their graphs hold; "
        "memory that several share is counted once.</p>",
        chart(report.timeline.points, peak),
        "<h2>What is alive at the end</h2>",
        _table("op", census.by_op),
        "<h2>Where it was made</h2>",
        _lines(report.lines),
        "<h2>The largest graphs</h2>",
        *(_graph(number, str(summary), str(chain)) for number, summary, chain in report.graphs),
    ]
    if not report.graphs:
        body.append("<p>No graph is alive.</p>")
    title = html.escape(f"Memory of {report.title}")
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def size(number: float) -> str:
    """Bytes in the unit that suits: ``1.5 MB``."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            return f"{number:,.0f} {unit}" if unit == "bytes" or number >= 100 else f"{number:,.1f} {unit}"
        number /= 1000
    raise ValueError(f"size: a number of bytes is needed, got {number}")


def chart(points: Sequence[Point], peak: Point) -> str:
    """Bytes over time as an SVG picture."""
    if not points:
        return "<p>No tensor was made.</p>"
    width, height, left, bottom = 900, 260, 70, 30
    end = max(points[-1].seconds, 1e-9)
    top = max(peak.bytes, 1)

    def at(point: Point) -> str:
        x = left + (width - left - 10) * point.seconds / end
        y = 10 + (height - bottom - 10) * (1 - point.bytes / top)
        return f"{x:.1f},{y:.1f}"

    base = height - bottom
    steps = [at(points[0])]
    for before, point in pairwise(points):
        steps += [at(Point(point.seconds, 0, before.bytes)), at(point)]  # a level lasts until the next event
    curve = " ".join(steps)
    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="bytes of live arrays over time">']
    for share in (0, 0.5, 1):
        y = 10 + (base - 10) * (1 - share)
        parts.append(f'<line class="grid" x1="{left}" x2="{width - 10}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{size(top * share)}</text>')
        along = left + (width - left - 10) * share
        anchor = {0: "start", 0.5: "middle", 1: "end"}[share]
        parts.append(f'<text x="{along:.1f}" y="{height - 8}" text-anchor="{anchor}">{end * share:.3g} s</text>')
    first, last = steps[0].split(",")[0], steps[-1].split(",")[0]
    parts.append(f'<polygon class="area" points="{first},{base} {curve} {last},{base}"/>')
    parts.append(f'<polyline class="curve" points="{curve}"/>')
    x, y_peak = at(peak).split(",")
    parts.append(
        f'<circle class="peak" cx="{x}" cy="{y_peak}" r="4"><title>{size(peak.bytes)} in '
        f"{count(peak.tensors, 'tensor')}</title></circle>"
    )
    return "".join(parts) + "</svg>"


def _table(name: str, counter: dict[str, int]) -> str:
    rows = sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:12]
    most = max([number for _, number in rows], default=1)
    cells = "".join(
        f'<tr><td><code>{html.escape(str(kind))}</code></td><td class="number">{number:,}</td>'
        f'<td style="width:50%">{_bar(number / most)}</td></tr>'
        for kind, number in rows
    )
    return f'<table><tr><th>{name}</th><th class="number">tensors</th><th></th></tr>{cells}</table>'


def _bar(share: float) -> str:
    return (
        '<svg viewBox="0 0 300 12" preserveAspectRatio="none" aria-hidden="true" style="height:.8rem">'
        f'<rect class="back" width="300" height="12"/><rect class="bar" width="{300 * share:.1f}" height="12"/></svg>'
    )


def _lines(lines: list[tuple[str, int, int]]) -> str:
    cells = "".join(
        f'<tr><td class="number">{size(used)}</td><td class="number">{number:,}</td>'
        f"<td><code>{html.escape(line)}</code></td></tr>"
        for line, number, used in lines
    )
    head = '<tr><th class="number">bytes</th><th class="number">tensors</th><th>line</th></tr>'
    return f"<table>{head}{cells}</table>"


def _graph(number: int, summary: str, holder: str) -> str:
    head = f"<p>{count(number, 'graph')} held by <code>{html.escape(holder)}</code></p>"
    return f'<div class="graph">{head}<pre><code>{html.escape(summary)}</code></pre></div>'
