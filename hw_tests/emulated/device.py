"""The emulated GPUs as devices of needle."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType

from needle import backend

from .array import ndarray
from .module import cupy


class EmulatedDevice(backend.CudaDevice):
    """A GPU whose array module is `emulated.cupy`."""

    __slots__ = ()

    dlpack_type = 12  # "an extension device": nobody takes its memory for the host's

    def _missing(self) -> str:
        count = cupy.cuda.runtime.getDeviceCount()
        return "" if self.index < count else f"there are {count} emulated GPUs"

    def _load(self) -> ModuleType:
        return cupy


def device(index: int = 0) -> EmulatedDevice:
    """Emulated GPU number `index`."""
    return EmulatedDevice("emulated", index)


backend.register_array_type(ndarray, cupy, lambda array: device(array.device.id), lambda array: array.get())


@contextlib.contextmanager
def use(index: int = 0) -> Iterator[EmulatedDevice]:
    """Make the emulated GPU the default device inside."""
    before = backend.set_default_device(device(index))
    try:
        yield device(index)
    finally:
        backend.set_default_device(before)
