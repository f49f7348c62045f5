"""Measuring on a GPU: what to make everything on, how to wait for it, and the floor that no program gets below.

Work on a GPU goes on when the call that asked for it has returned. So a turn there begins and ends with waiting, and
is judged by the wall clock.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

EMPTY_KERNEL = 'extern "C" __global__ void nothing() {}'
COPIED = 1 << 28
"""Bytes of the array whose copy tells the bandwidth."""


def _device(name: str) -> Any:
    from apps.arguments import device  # imports needle, which the list of workloads does without

    return device(name)


def use(peer: str, name: str) -> Callable[[], None]:
    """Have a peer make its arrays on a GPU from now on.

    Parameters
    ----------
    peer : str
        ``"needle"`` or ``"torch"``.
    name : str
        ``"cuda"`` or ``"cuda:1"``.

    Returns
    -------
    callable
        Waits until the GPU has done all that it was asked for.
    """
    if peer == "torch":
        import torch

        torch.set_default_device(name)
        torch.backends.cudnn.allow_tf32 = False  # float32 as everywhere else
        return functools.partial(torch.cuda.synchronize, name)
    import needle as ndl

    device = _device(name)
    ndl.set_default_device(device)
    return device.xp.cuda.Device(device.index).synchronize


def peers() -> dict[str, str]:
    """Why a peer cannot take part on a GPU, by peer; those that can are not in it."""
    reasons = dict.fromkeys(("autograd", "mygrad", "numpy"), "computes on the CPU alone")
    try:
        import torch

        if not torch.cuda.is_available():
            reasons["torch"] = "this build of it, or its driver, has no GPU"
    except ImportError:
        reasons["torch"] = "not installed"
    return reasons


def description(name: str) -> str:
    """The GPU's name, and cupy's version.

    Raises
    ------
    argparse.ArgumentTypeError
        If the name is no GPU's, or it cannot be used.
    """
    device = _device(name)
    properties = device.xp.cuda.runtime.getDeviceProperties(device.index)
    return f"GPU: {properties['name'].decode()}; cupy {device.xp.__version__}; wall clock, the GPU waited for"


def speed(name: str, launches: int = 2000, copies: int = 10) -> dict[str, float]:
    """What this GPU and this Python can do at best.

    Returns
    -------
    dict
        ``"launch"``, the seconds that cupy takes to launch a kernel that does nothing, and ``"bytes"``, the bytes that
        a copy within the GPU's memory reads and writes a second.
    """
    device = _device(name)
    xp = device.xp
    wait = xp.cuda.Device(device.index).synchronize

    def seconds_each(work: Callable[[], object], times: int) -> float:
        work()
        wait()
        start = time.perf_counter()
        for _ in range(times):
            work()
        wait()
        return (time.perf_counter() - start) / times

    with device.current():
        kernel = xp.RawModule(code=EMPTY_KERNEL).get_function("nothing")
        source, target = (device.zeros((COPIED,), "uint8") for _ in range(2))
        return {
            "launch": seconds_each(lambda: kernel((1,), (1,), ()), launches),
            "bytes": 2 * COPIED / seconds_each(lambda: xp.copyto(target, source), copies),
        }
