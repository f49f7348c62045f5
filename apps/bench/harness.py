"""Runs the contenders of a workload in turns, each in its own process, and collects what they took."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apps.bench.workload import Contender, Workload

THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
ANSWER_WITHIN = 300.0
"""Seconds after which a worker that does not answer is taken to hang, and ended."""


class WorkerFailed(Exception):
    """A contender could not do its work; the text says why, and `details` is what it wrote to stderr."""

    def __init__(self, text: str, details: str = "") -> None:
        super().__init__(text)
        self.details = details


@dataclass
class Result:
    """What one workload gave.

    Attributes
    ----------
    device : str
        Where it was done; the aims are about the CPU.
    seconds : dict of str to list of float
        For each contender that finished, the CPU seconds per unit of work, one figure per round; the
        same index is the same round for all of them.
    failures : dict of str to str
        For each contender that failed, what went wrong.
    disagreements : list of str
        One line for every contender whose numbers are not those of the others.
    floors : dict of str to float
        On a GPU, the seconds that a unit of work takes at the least, by what takes them.
    """

    workload: Workload
    device: str = "cpu"
    seconds: dict[str, list[float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    disagreements: list[str] = field(default_factory=list)
    floors: dict[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True if every contender finished and all agreed."""
        return not self.failures and not self.disagreements


class Worker:
    """The harness's end of one contender's process; a context manager that ends the process."""

    def __init__(self, source: str, workload: Workload, contender: Contender, device: str) -> None:
        self.label = contender.label
        root = str(Path(__file__).resolve().parents[2])
        environment = dict(os.environ, **dict.fromkeys(THREAD_VARIABLES, "1"))
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        self._stderr = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (see close)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "apps.bench.worker", source, workload.name, contender.label, device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            encoding="utf-8",
            env=environment,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and wait for the answer.

        Raises
        ------
        WorkerFailed
            If the worker reports an error, ends, or does not answer in time.
        """
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(ANSWER_WITHIN, give_up)
        timer.daemon = True  # should Ctrl-C come where it is not cancelled, the program ends all the same
        try:
            timer.start()
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:  # the process ended, and its end of the pipe with it
            line = ""
        finally:
            timer.cancel()
        answer = json.loads(line) if line else {"error": self._why_it_ended(late.is_set())}
        if "error" in answer:
            self._process.wait()
            raise WorkerFailed(answer["error"], self._written())
        return answer

    def close(self) -> None:
        """End the process: close its pipe, and kill it if that does not suffice."""
        try:
            self._process.stdin.close()
        except OSError:
            self._process.kill()  # it ended with a request unread
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._stderr.close()

    def _why_it_ended(self, late: bool) -> str:
        code = self._process.wait()
        if late:
            return f"no answer within {ANSWER_WITHIN:.0f} s"
        return f"the process ended with code {code}"

    def _written(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read()


def compare_numbers(workload: Workload, digests: dict[str, dict[str, Any]]) -> list[str]:
    """Compare the contenders' digests; give one line for each quantity in which one departs from the others.

    The hand-written NumPy is the reference where it takes part, PyTorch after it, then whoever comes first.
    """
    order = sorted(digests, key=lambda label: {"numpy": 0, "torch": 1}.get(label.split()[0], 2))
    reference: dict[str, tuple[str, dict[str, Any]]] = {}
    lines = []
    for label in order:
        for name, got in digests[label].items():
            whose, expected = reference.setdefault(name, (label, got))
            if got["size"] != expected["size"]:
                lines.append(f"{label}: {name!r} has {got['size']} elements, {whose}'s has {expected['size']}")
                continue
            scale = max(got["norm"], expected["norm"])
            pairs = zip(got["probes"], expected["probes"], strict=True)
            difference = max(abs(a - b) for a, b in pairs)
            if not (math.isfinite(scale) and difference <= workload.rtol * scale):
                lines.append(
                    f"{label}: {name!r} departs from {whose}'s by {difference:.1e}, "
                    f"at a norm of {scale:.1e} (allowed: {workload.rtol:.0e} of it)"
                )
    return lines


def floors(workload: Workload, speed: dict[str, float]) -> dict[str, float]:
    """Give the seconds that a unit of work takes at the least, on a GPU of that `gpu.speed`."""
    found = {}
    if speed and workload.gpu_launches:
        found[f"floor {workload.gpu_launches:,} launches"] = workload.gpu_launches * speed["launch"]
    if speed and workload.gpu_bytes:
        found[f"floor {workload.gpu_bytes / 1e6:,.1f} MB"] = workload.gpu_bytes / speed["bytes"]
    return found


def run_workload(
    workload: Workload,
    peers: Iterable[str],
    *,
    rounds: int = 40,
    seconds: float = 12.0,
    turn: float = 0.03,
    source: str = "apps.bench.workloads",
    device: str = "cpu",
    progress: Callable[[str], None] = lambda text: None,
) -> Result:
    """Run one workload for the given peers, in interleaved rounds.

    Parameters
    ----------
    workload : Workload
    peers : iterable of str
        Who takes part; a contender of another peer is left out.
    rounds : int
        How many turns each contender gets, unless the time is up before.
    seconds : float
        No further round begins after this many seconds (wall clock) of rounds. There are at least three.
    turn : float
        About how many seconds a turn lasts; a step that takes longer is a turn of its own.
    source : str
        The module that holds the workload in its ``WORKLOADS``; the workers import it.
    device : str
        ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.
    progress : callable
        Gets a line of text now and then.

    Returns
    -------
    Result
        A contender that fails is in its `failures`; the others go on.
    """
    result = Result(workload, device)
    chosen = [c for c in workload.contenders if c.peer in set(peers)]
    workers: dict[str, Worker] = {}
    digests: dict[str, dict[str, Any]] = {}

    def ask(label: str, **request: Any) -> dict[str, Any] | None:
        try:
            return workers[label].ask(**request)
        except WorkerFailed as error:
            result.failures[label] = f"{error}\n{error.details}".strip()
            workers.pop(label).close()
            result.seconds.pop(label, None)
            return None

    try:
        for contender in chosen:
            label = contender.label
            progress(f"{workload.name}: {label} starts")
            workers[label] = Worker(source, workload, contender, device)
            answer = ask(label, do="check")
            if answer is not None:
                digests[label] = answer["numbers"]
        result.disagreements = compare_numbers(workload, digests)
        ours = next((label for label in workers if label.startswith("needle")), None)
        if device != "cpu" and ours and (workload.gpu_launches or workload.gpu_bytes):
            result.floors = floors(workload, ask(ours, do="speed") or {})
        result.seconds = {label: [] for label in workers}
        for label in list(workers):
            progress(f"{workload.name}: {label} warms up")
            ask(label, do="turn", seconds=turn)
        started = time.monotonic()
        for done in range(rounds):
            if done >= 3 and time.monotonic() - started > seconds:
                break
            progress(f"{workload.name}: round {done + 1} of {rounds}")
            labels = list(workers)
            # Everybody goes first in turn, so that nobody always follows the same neighbour.
            first = done % max(len(labels), 1)
            for label in labels[first:] + labels[:first]:
                answer = ask(label, do="turn", seconds=turn)
                if answer is not None:
                    result.seconds[label].append(answer["seconds"])
    finally:
        for worker in workers.values():
            worker.close()
    return result
