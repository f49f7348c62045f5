"""Devices, streams and memory of the emulated GPUs: which one is current, and how much is taken on it."""

from __future__ import annotations

from typing import Any

from .counts import record

DEVICES = 2  #: emulated GPUs, so that mixing two of them can be tested


class OutOfMemoryError(MemoryError):
    """As cupy's: what was asked beside what there is."""

    def __init__(self, size: int, total: int, limit: int = 0):
        super().__init__(f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes).")
        self._size, self._total, self._limit = size, total, limit


class Pool:
    """The memory pools, one for each GPU: bytes in arrays that are alive. What is asked is about the current GPU."""

    def __init__(self) -> None:
        self._used = [0] * DEVICES
        self._limits = [0] * DEVICES

    def take(self, device: Device, size: int) -> None:
        """Count an allocation, or raise as if the GPU were full."""
        used, limit = self._used[device.id], self._limits[device.id]
        if limit and used + size > limit:
            raise OutOfMemoryError(size, used, limit)
        self._used[device.id] += size
        for hook in _hooks:
            hook.malloc_postprocess(device_id=device.id, size=size, mem_size=size, mem_ptr=0, pmem_id=0)

    def give_back(self, device: Device, size: int) -> None:
        self._used[device.id] -= size

    # cupy's names

    def used_bytes(self) -> int:
        return self._used[_current[-1]]

    def total_bytes(self) -> int:
        return self.used_bytes()

    def free_bytes(self) -> int:
        return 0

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        self._limits[_current[-1]] = size or 0

    def get_limit(self) -> int:
        return self._limits[_current[-1]]

    def free_all_blocks(self, stream: Any = None) -> None:
        pass


class MemoryHook:
    """``cupy.cuda.MemoryHook``: called after each allocation while it is entered."""

    def __enter__(self) -> MemoryHook:
        _hooks.append(self)
        return self

    def __exit__(self, *exc_info: Any) -> None:
        _hooks.remove(self)

    def malloc_postprocess(self, **kwargs: Any) -> None:
        pass


_hooks: list[MemoryHook] = []
pool = Pool()
_current = [0]


class Device:
    """``cupy.cuda.Device``: a context in which it is the current one."""

    def __init__(self, device: Any = None):
        self.id = _current[-1] if device is None else int(device)
        if not 0 <= self.id < DEVICES:
            raise ValueError(f"there are {DEVICES} emulated GPUs, got number {self.id}")

    def __enter__(self) -> Device:
        _current.append(self.id)
        return self

    def __exit__(self, *exc_info: Any) -> None:
        _current.pop()

    def use(self) -> None:
        _current[-1] = self.id

    def synchronize(self) -> None:
        record("sync", f"synchronize GPU {self.id}")

    @property
    def attributes(self) -> dict[str, int]:
        return {"MaxSharedMemoryPerBlockOptin": 232448}

    @property
    def mem_info(self) -> tuple[int, int]:
        with self:
            total = pool.get_limit() or 2**34
            return total - pool.used_bytes(), total

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"


def current_device() -> Device:
    return Device()


class Stream:
    """``cupy.cuda.Stream``: everything happens at once here, so that only waiting for it is worth counting."""

    def __init__(self, *args: Any, **kwargs: Any):
        pass

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc_info: Any) -> None:
        pass

    def synchronize(self) -> None:
        record("sync", f"synchronize GPU {_current[-1]}")  # the default stream is that of the current GPU


class Pointer:
    """``array.data``: where the memory is."""

    def __init__(self, ptr: int):
        self.ptr = ptr
