"""One contender in a process of its own: builds its state once, then makes the turns that it is asked for.

The harness writes one JSON object per line to this process and reads one back. ``{"do": "check"}`` is
answered with a digest of the contender's numbers, ``{"do": "turn", "seconds": s}`` with the CPU seconds that
one unit of work took (on a GPU, the seconds), ``{"do": "speed"}`` with `gpu.speed`. Whatever the libraries print
goes to stderr, so that it cannot mix with the answers.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TextIO

import numpy as np

from apps.bench import gpu
from apps.bench.workload import Contender, Prepared, Workload, load

PROBES = 3


def digest(numbers: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Reduce each array to its size, its norm and its products with fixed random vectors.

    Two arrays of equal size whose products agree are equal, but for an accident that no rounding error
    is likely to cause; so megabytes need not be sent to be compared.
    """
    result = {}
    for name, array in numbers.items():
        if hasattr(array, "cpu"):  # PyTorch's, which may be on a GPU
            array = array.detach().cpu()
        flat = np.asarray(array, dtype=np.float64).ravel()
        rng = np.random.default_rng(flat.size)
        probes = [float(rng.standard_normal(flat.size) @ flat) for _ in range(PROBES)]
        result[name] = {"size": flat.size, "norm": float(np.linalg.norm(flat)), "probes": probes}
    return result


def one_thread(peer: str) -> None:
    """Bind this process to one core, where that can be done, and PyTorch to one thread.

    The BLAS libraries have read their environment variables already: the harness sets them.
    """
    if hasattr(os, "sched_setaffinity"):
        core = os.environ.get("NEEDLE_BENCH_CORE")
        os.sched_setaffinity(0, {int(core) if core else max(os.sched_getaffinity(0))})
    if peer == "torch":
        import torch

        torch.set_num_threads(1)
        torch.set_num_interop_threads(1)


class Turns:
    """Runs a prepared step in turns and times it by this process's CPU clock; by the wall clock if it has to `wait`."""

    def __init__(self, prepared: Prepared, wait: Callable[[], None] | None = None) -> None:
        self._prepared = prepared
        self._clock = time.process_time if wait is None else time.perf_counter
        self._wait = wait or (lambda: None)
        self._seconds_per_step = 0.0
        if prepared.measure is None:
            for _ in range(2):  # the first step pays for what is set up once
                self._timed(1)

    def turn(self, seconds: float) -> float:
        """Work for about that long; give the CPU seconds per unit of work."""
        if self._prepared.measure is not None:
            return self._prepared.measure() / self._prepared.per_step
        if self._seconds_per_step < seconds / 4:
            self._prepared.step()  # untimed: the others' turns have emptied the caches
        steps = max(1, round(seconds / self._seconds_per_step))
        return self._timed(steps) / self._prepared.per_step

    def _timed(self, steps: int) -> float:
        step = self._prepared.step
        self._wait()
        start = self._clock()
        for _ in range(steps):
            step()
        self._wait()
        self._seconds_per_step = max((self._clock() - start) / steps, 1e-9)
        return self._seconds_per_step


def numbers_of(workload: Workload, contender: Contender) -> dict[str, dict[str, Any]]:
    """Build the contender for the comparison, make the steps, and give the digest of its numbers."""
    prepared = contender.build(**workload.check_with)
    for _ in range(workload.check_steps):
        prepared.step()
    return digest(prepared.numbers())


def serve(workload: Workload, contender: Contender, device: str, requests: TextIO, answers: TextIO) -> None:
    """Answer the harness, line by line, until it closes the pipe."""
    turns: Turns | None = None
    wait = None if device == "cpu" else gpu.use(contender.peer, device)
    for line in requests:
        request = json.loads(line)
        if request["do"] == "check":
            answer: dict[str, Any] = {"numbers": numbers_of(workload, contender)}
        elif request["do"] == "speed":
            answer = gpu.speed(device)
        else:
            if turns is None:
                turns = Turns(contender.build(), wait)
                # What the imports left is the same for every step; the collector need not look at it again.
                gc.collect()
                gc.freeze()
            answer = {"seconds": turns.turn(request["seconds"])}
        print(json.dumps(answer), file=answers, flush=True)


def main(source: str, name: str, label: str, device: str) -> int:
    """Be the contender `label` of the workload `name` of the module `source`, on `device`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the harness ends this process by closing the pipe
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        workload = next(w for w in load(source) if w.name == name)
        contender = workload.find(label)
        one_thread(contender.peer)
        serve(workload, contender, device, sys.stdin, answers)
    except Exception as error:
        traceback.print_exc()
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answers, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
