"""``cupy.RawModule``: CUDA sources, compiled for the CPU and run on the emulated GPU's memory."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from kernel_shim import Program

from .array import ndarray, operand
from .counts import record
from .signatures import check_call

_LIMIT = 48 * 1024  # of shared memory, unless a kernel asks for more
_launches = itertools.count()  # each in another order of threads


class RawModule:
    """The kernels of one source."""

    def __init__(self, *args: Any, **kwargs: Any):
        check_call("RawModule", args, kwargs)
        self._source = kwargs["code"] if "code" in kwargs else args[0]
        self._program: Program | None = None

    def get_function(self, name: str) -> RawKernel:
        if self._program is None:
            self._program = Program(self._source, watched=False)
        return RawKernel(self._program, name)


class RawKernel:
    """One kernel."""

    def __init__(self, program: Program, name: str):
        self._program = program
        self._name = name
        self.max_dynamic_shared_size_bytes = _LIMIT

    def __call__(self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], *, shared_mem: int = 0) -> None:
        if shared_mem > self.max_dynamic_shared_size_bytes:
            raise ValueError(f"{self._name}: {shared_mem} bytes of shared memory, above the limit that was set")
        arrays = [a for a in args if isinstance(a, ndarray)]
        values = [operand(a) if isinstance(a, ndarray) else self._number(a) for a in args]
        record("launch", self._name, size=sum(a.nbytes for a in arrays))
        self._program.launch(self._name, grid, block, values, shared_mem=shared_mem, seed=next(_launches))

    def _number(self, value: Any) -> Any:
        if type(value) in (int, float, bool):
            return value
        raise TypeError(f"{self._name}: unsupported argument of type {type(value)}")
