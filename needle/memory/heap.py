"""Keeping freed memory in the process, for the next training step.

glibc gives large freed arrays back to the kernel, and each page of the next array of that size is then handed out and
zeroed anew: a page fault, a few microseconds for every 4 KiB. A training step frees and makes the same arrays again and
again, so that thousands of page faults can be a third of its time.
"""

from __future__ import annotations

import ctypes
import sys

#: Parameters of glibc's mallopt(3), as malloc.h numbers them.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_DEFAULT_THRESHOLD = 128 * 1024  # of both
_LARGEST_MMAP_THRESHOLD = 4 * 1024 * 1024 * ctypes.sizeof(ctypes.c_long)  # HEAP_MAX_SIZE / 2
_LARGEST_TRIM_THRESHOLD = 2**31 - 1  # mallopt takes an int


def keep_heap(on: bool = True) -> bool:
    """Whether freed memory stays with the process, to be used again, instead of going back to the kernel.

    It holds for the whole process, from now on. Arrays of up to 32 MiB then come from the heap, and up to 2 GiB that
    are free at its end are kept. The process needs no more memory than at its peak, but does not become smaller after
    it.

    Parameters
    ----------
    on : bool
        False sets glibc's own limits of 128 KiB.

    Returns
    -------
    bool
        Whether that could be set: only glibc, the C library of most Linux systems, has these limits. Elsewhere
        nothing changes.

    Raises
    ------
    TypeError
        If `on` is no bool.

    Notes
    -----
    The environment variables ``MALLOC_MMAP_THRESHOLD_=33554432`` and ``MALLOC_TRIM_THRESHOLD_=2147483647`` do the same
    without a change of the program. Source: mallopt(3) of the Linux manual pages.

    Examples
    --------
    >>> from needle import memory
    >>> kept = memory.keep_heap()
    >>> _ = memory.keep_heap(False)
    """
    if not isinstance(on, bool):
        raise TypeError(f"keep_heap: True or False is needed, got {on!r}")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None or not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"):
        return False
    limits = {
        _M_MMAP_THRESHOLD: _LARGEST_MMAP_THRESHOLD if on else _DEFAULT_THRESHOLD,
        _M_TRIM_THRESHOLD: _LARGEST_TRIM_THRESHOLD if on else _DEFAULT_THRESHOLD,
    }
    return all([mallopt(parameter, limit) == 1 for parameter, limit in limits.items()])
