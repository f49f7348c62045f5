"""What the emulated GPU was asked to do: kernel launches, bytes moved, copies from and to the host, host syncs."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterator


class HiddenSync(AssertionError):
    """The host waited for the GPU where the test forbade it."""


class Counts:
    """Numbers of events since the counter was opened.

    Attributes
    ----------
    launches : int
        Kernels started.
    bytes : int
        What those kernels read and wrote: the sizes of their operands and results.
    uploads, downloads : int
        Copies from the host to the GPU and back.
    syncs : int
        How often the host waited for the GPU: downloads, and functions whose result's shape depends on values.
    names : collections.Counter
        How often each function launched, uploaded or waited, by ``"launch sum"``, ``"sync float"`` and the like.
    """

    def __init__(self, forbid_syncs: bool = False, forbid_uploads: bool = False):
        self.launches = self.bytes = self.uploads = self.downloads = self.syncs = 0
        self.names: collections.Counter = collections.Counter()
        self._forbid_syncs = forbid_syncs
        self._forbid_uploads = forbid_uploads

    def add(self, event: str, name: str, times: int, size: int) -> None:
        """Count an event, or raise if it is forbidden."""
        self.names[f"{event} {name}"] += times
        if event == "launch":
            self.launches += times
            self.bytes += size
        elif event == "upload":
            self.uploads += times
            if self._forbid_uploads:
                raise HiddenSync(f"{name}: {size} bytes were copied from the host to the GPU")
        else:
            self.syncs += times
            self.downloads += times if size else 0
            if self._forbid_syncs:
                raise HiddenSync(f"{name}: the host waits for the GPU here")


_open: list[Counts] = []


def record(event: str, name: str, times: int = 1, size: int = 0) -> None:
    """Tell every open counter."""
    for counts in _open:
        counts.add(event, name, times, size)


@contextlib.contextmanager
def counting(forbid_syncs: bool = False, forbid_uploads: bool = False) -> Iterator[Counts]:
    """Count what happens inside; with `forbid_syncs` or `forbid_uploads`, raise `HiddenSync` where it happens."""
    counts = Counts(forbid_syncs, forbid_uploads)
    _open.append(counts)
    try:
        yield counts
    finally:
        _open.remove(counts)
