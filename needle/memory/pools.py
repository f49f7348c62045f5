"""What CuPy's memory pool holds on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import backend


@dataclass(frozen=True)
class PoolStatistics:
    """The memory of one GPU, in bytes.

    Attributes
    ----------
    device : Device
    used : int
        In arrays that are alive, rounded up as the pool does.
    cached : int
        Kept by the pool for the next arrays.
    free : int
        Left on the GPU outside of the pool.
    total : int
        Of the GPU. What `used`, `cached` and `free` do not make up belongs to other programs and to CUDA itself.
    """

    device: backend.Device
    used: int
    cached: int
    free: int
    total: int

    def __str__(self) -> str:
        sizes = {"used": self.used, "cached": self.cached, "free": self.free, "total": self.total}
        width = len(f"{self.total:,}")
        return "\n".join(
            [f"{self.device!r}", *[f"  {name:<6}  {size:>{width},} bytes" for name, size in sizes.items()]]
        )


def pool_statistics(device: backend.Device | None = None) -> PoolStatistics:
    """How much of a GPU's memory is in arrays, and how much CuPy's pool keeps for later ones.

    ``cupy.get_default_memory_pool().free_all_blocks()`` gives back what is cached.

    Parameters
    ----------
    device : Device, optional
        A GPU; ``ndl.cuda()`` if None.

    Returns
    -------
    PoolStatistics

    Raises
    ------
    TypeError
        If `device` is none.
    ValueError
        If it is the CPU, where arrays are taken from no pool.
    RuntimeError
        If the GPU cannot be used.

    Examples
    --------
    >>> import needle as ndl
    >>> from needle import memory
    >>> if ndl.cuda().enabled():
    ...     print(memory.pool_statistics())
    """
    device = backend.as_device("pool_statistics", backend.cuda() if device is None else device)
    if device == backend.cpu():
        raise ValueError("pool_statistics: arrays of the CPU are taken from no pool; live_tensors() counts them")
    xp: Any = device.xp
    with device.current():
        pool = xp.get_default_memory_pool()
        free, total = xp.cuda.Device().mem_info
        return PoolStatistics(device, int(pool.used_bytes()), int(pool.free_bytes()), int(free), int(total))
