"""The command ``python -m apps.bench``: see ``--help``, and the package's docstring for how it measures."""

from __future__ import annotations

import argparse
import signal
import sys

from apps.bench import gpu
from apps.bench.harness import Result, run_workload
from apps.bench.machine import description
from apps.bench.report import markdown_table, problems, text_table
from apps.bench.workload import PEERS, Workload, choose, installed, load
from apps.streams import run_printing


def parser() -> argparse.ArgumentParser:
    """Give the parser of the command line."""
    result = argparse.ArgumentParser(
        prog="python -m apps.bench",
        description="Measure needle side by side with its peers: one core, one BLAS thread, in interleaved turns.",
    )
    result.add_argument(
        "--workload", nargs="+", metavar="NAME", help="only these; a family's name takes all its members"
    )
    result.add_argument("--peer", nargs="+", metavar="NAME", choices=PEERS, help="needle and only these peers")
    result.add_argument("--device", default="cpu", metavar="NAME", help="cpu, cuda or cuda:N (default: cpu)")
    result.add_argument("--rounds", type=_positive(int), default=40, help="turns for each contender (default: 40)")
    result.add_argument(
        "--seconds", type=_positive(float), default=12.0, help="no new round of a workload after this (default: 12)"
    )
    result.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    result.add_argument("--list", action="store_true", help="list the workloads and their contenders, and end")
    result.add_argument(
        "--source", default="apps.bench.workloads", metavar="MODULE", help="module whose WORKLOADS are run"
    )
    return result


def _positive(kind: type) -> object:
    def convert(text: str) -> int | float:
        value = kind(text)
        if not value > 0:
            raise ValueError
        return value

    convert.__name__ = f"positive {kind.__name__}"
    return convert


class Progress:
    """One line on stderr that is overwritten; where stderr is no terminal, a line for each workload."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._last = ""

    def __call__(self, text: str) -> None:
        """Show the text in place of the one before."""
        if self._live:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        elif text.partition(":")[0] != self._last:
            self._last = text.partition(":")[0]
            print(f"{self._last} …", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take the line away."""
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def listing(workloads: list[Workload]) -> str:
    """Give the workloads with their titles and contenders."""
    width = max(len(w.name) for w in workloads)
    return "\n".join(f"{w.name:<{width}}  {w.title}\n{'':<{width}}  {', '.join(w.labels())}" for w in workloads)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; give its exit status: 0, or 1 if a contender failed or computed other numbers."""
    return run_printing("apps.bench", lambda: _command(arguments))


def _command(arguments: list[str] | None) -> int:
    options = parser().parse_args(arguments)
    try:
        workloads = choose(load(options.source), options.workload)
        on_gpu = options.device != "cpu"
        where = gpu.description(options.device) if on_gpu else ""
    except (ValueError, argparse.ArgumentTypeError) as error:
        print(f"apps.bench: {error}", file=sys.stderr)
        return 2
    if options.list:
        print(listing(workloads))
        return 0
    wanted = [p for p in PEERS if p == "needle" or options.peer is None or p in options.peer]
    missing = {p: "not installed" for p in wanted if not installed(p)}
    print(description())
    if on_gpu:
        workloads = [w for w in workloads if w.on_gpu]
        missing = gpu.peers() | missing
        print(where)
    peers = [p for p in wanted if p not in missing]
    left_out = [f"{p} ({missing[p]})" for p in wanted if p in missing]
    if left_out:
        print(f"Left out: {', '.join(left_out)}")
    print(flush=True)

    progress = Progress()
    results: list[Result] = []
    status = 0
    try:
        for workload in workloads:
            results.append(
                run_workload(
                    workload,
                    peers,
                    rounds=options.rounds,
                    seconds=options.seconds,
                    source=options.source,
                    device=options.device,
                    progress=progress,
                )
            )
    except KeyboardInterrupt:
        status = 130
    finally:
        progress.clear()
    print(markdown_table(results) if options.markdown else text_table(results))
    if status == 130:
        print("\nInterrupted: the workloads above are those that were finished.")
    wrong = problems(results)
    if wrong:
        print(f"\n{wrong}", file=sys.stderr)
        status = status or 1
    return status


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what was measured is still printed
    sys.exit(main())
