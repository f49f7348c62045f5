"""An optimizer's step over all parameters in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backend import Array, array_module
from . import contiguous, launch

_ELEMENTS = 4096  # of a block: 16 for each of its threads
_THREADS = 256


class MultiTensor:
    """Launches one optimizer's kernel, and keeps the table of addresses on the GPU as long as it is the same.

    Memory pools give the same addresses step after step, so that after the first steps nothing is copied to the GPU.
    """

    def __init__(self) -> None:
        self._key: tuple = ()
        self._table: Any = None

    def step(self, name: str, rows: Sequence[tuple], numbers: tuple) -> None:
        """Start the kernel.

        Parameters
        ----------
        name : str
            ``"adam"`` or ``"sgd"``.
        rows : sequence of (p, gradient, new p, state, state)
            Arrays of one GPU and dtype, each with as many elements as the others of its row; a state may be None.
        numbers : tuple
            The kernel's further arguments.
        """
        rows = [(contiguous(p), _like(p, gradient), *rest) for p, gradient, *rest in rows if p.size]
        if not rows:
            return
        key = tuple([(*[0 if a is None else a.data.ptr for a in row], row[0].size) for row in rows])
        if key != self._key:
            table = np.concatenate([_blocks(addresses, rows[0][0].itemsize) for addresses in key])
            self._key, self._table = key, array_module(rows[0][0]).array(table)
        launch(name, (len(self._table),), (_THREADS,), self._table, *numbers, dtype=rows[0][0].dtype)


def _blocks(addresses: tuple[int, ...], itemsize: int) -> np.ndarray:
    """The rows of the table for one parameter: five addresses and a number of elements for each block."""
    *starts, size = addresses
    first = np.arange(0, size, _ELEMENTS, dtype=np.int64)
    table = np.empty((len(first), 6), dtype=np.int64)
    for column, start in enumerate(starts):
        table[:, column] = first * itemsize + start if start else 0
    table[:, 5] = np.minimum(size - first, _ELEMENTS)
    return table


def _like(p: Array, gradient: Array) -> Array:
    return contiguous(gradient if gradient.dtype == p.dtype else gradient.astype(p.dtype))


def fused(array: Array) -> bool:
    """Whether parameters with arrays like this one are stepped here."""
    return type(array) is not np.ndarray and array.dtype in (np.float32, np.float64)
