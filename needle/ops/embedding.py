"""Rows of a table picked by integer ids, and the adjoint, which adds rows up at their ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import backend
from ..autograd import Tensor, TensorOp, Value
from ..backend import Array, array_module
from .checks import as_array
from .common import as_value, shape_of


class TakeRows(TensorOp):
    """The rows of a table (n, …) at integer `ids` of any shape"""

    reads = ()

    def __init__(self, ids: Array):
        self.ids = ids

    def compute(self, table: Array) -> Array:
        rows = table[self.ids]
        if type(rows) is np.ndarray:
            return rows
        # A GPU wraps ids out of range silently, and looking at them would make the host wait for it: NaN tells instead,
        # as far as there is one.
        xp = array_module(table)
        known = (self.ids >= 0) & (self.ids < table.shape[0])
        unknown = table.dtype.type(np.nan if table.dtype.kind == "f" else 0)
        return xp.where(known.reshape(known.shape + (1,) * (table.ndim - 1)), rows, unknown)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return AddRows(self.ids, node.inputs[0].shape[0])(out_grad)


class AddRows(TensorOp):
    """A table of `count` rows, zeros with each row of a added at its id: the adjoint of `TakeRows`"""

    reads = ()

    def __init__(self, ids: Array, count: int):
        self.ids = ids
        self.count = count

    def compute(self, a: Array) -> Array:
        row = a.shape[self.ids.ndim :]
        table = array_module(a).zeros((self.count, *row), dtype=a.dtype)
        if type(a) is np.ndarray:
            _add_sorted(table, self.ids.reshape(-1), a.reshape((self.ids.size, *row)))
        else:
            backend.scatter_add(table, self.ids, a)
        return table

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return TakeRows(self.ids)(out_grad)


def _add_sorted(table: np.ndarray, ids: np.ndarray, rows: np.ndarray) -> None:
    """Add rows to the table where they belong, by summing runs of equal ids: `numpy.add.at` goes element by element."""
    if ids.size:
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        table[ordered[starts]] = np.add.reduceat(rows[order], starts, axis=0)


def embedding(table: Any, ids: Any) -> Any:
    """The rows of a table at given ids: what an embedding layer computes.

    Parameters
    ----------
    table : Tensor
        Shape (n, d).
    ids : Tensor or array_like
        Integers of [0, n), of any shape; whole numbers in a float dtype will do. They get no gradient.

    Returns
    -------
    Tensor
        Shape ``ids.shape + (d,)``. On a GPU the row of an id out of range is NaN: an error there would make every call
        wait for the GPU.

    Raises
    ------
    ValueError
        If the table has not two axes, or an id is out of range or not whole.
    TypeError
        If the ids are not numbers.

    Examples
    --------
    >>> import needle as ndl
    >>> table = ndl.Tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    >>> ndl.embedding(table, [2, 0])
    needle.Tensor([[4. 5.]
     [0. 1.]])
    """
    table = as_value("embedding", table)
    shape = shape_of(table)
    if len(shape) != 2:
        raise ValueError(f"embedding: a table of shape (n, d) is needed, got {shape}")
    device = table.device if isinstance(table, Tensor) else backend.device_of(table)
    return TakeRows(_as_ids(ids, shape[0], device))(table)


def _as_ids(ids: Any, count: int, device: backend.Device) -> Array:
    """Ids as an array of indices on `device`, checked as far as no GPU has to be waited for."""
    array = ids.realize_cached_data() if isinstance(ids, Value) else ids
    if not backend.is_array(array):
        array = as_array("embedding", "ids", array)
        array = array.astype(np.intp) if array.size == 0 else array
    if array.dtype.kind not in "iuf":
        raise TypeError(f"embedding: ids are integers, got dtype {array.dtype}")
    if isinstance(array, np.ndarray) and array.size:
        low, high = array.min(), array.max()
        if not (low >= 0 and high < count):
            raise ValueError(f"embedding: ids from {low} to {high}, but the table has rows 0 to {count - 1}")
        if array.dtype.kind == "f" and not (array == np.floor(array)).all():
            raise ValueError(f"embedding: ids are whole numbers, got {array[array != np.floor(array)][0]}")
    if backend.device_of(array) != device:
        array = device.array(array)
    with device.current():
        return array.astype(np.intp)
