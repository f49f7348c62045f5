"""A dataset of arrays in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from needle.data.basic import Dataset
from needle.data.indexing import as_numeric_array, resolve_index


class NDArrayDataset(Dataset):
    """Samples from arrays of equal length: sample i is ``(arrays[0][i], arrays[1][i], …)``.

    Parameters
    ----------
    *arrays : array_like or Tensor, each of shape (n, …)
        NumPy arrays are kept as they are, not copied.

    Attributes
    ----------
    arrays : tuple of numpy.ndarray

    Raises
    ------
    TypeError
        If an array is not numeric.
    ValueError
        If there is no array, one is 0-d, or their lengths differ.

    Examples
    --------
    >>> inputs, labels = np.arange(6.0).reshape(3, 2), np.array([7, 8, 9])
    >>> dataset = NDArrayDataset(inputs, labels)
    >>> x, y = dataset[1]
    >>> x.tolist(), int(y)
    ([2.0, 3.0], 8)
    >>> NDArrayDataset(inputs, labels[:2])
    Traceback (most recent call last):
    ValueError: NDArrayDataset: arrays of equal length are needed, got lengths 3 and 2
    """

    takes_index_arrays = True

    def __init__(self, *arrays: Any) -> None:
        super().__init__()
        if not arrays:
            raise ValueError("NDArrayDataset: at least one array is needed, got none")
        numeric = tuple(as_numeric_array(array, "NDArrayDataset") for array in arrays)
        if any(array.ndim == 0 for array in numeric):
            raise ValueError("NDArrayDataset: a 0-d array has no samples; arrays of shape (n, …) are needed")
        lengths = [len(array) for array in numeric]
        if len(set(lengths)) > 1:
            text = " and ".join(str(length) for length in lengths)
            raise ValueError(f"NDArrayDataset: arrays of equal length are needed, got lengths {text}")
        self.arrays = numeric

    def __getitem__(self, index: int | slice | list | np.ndarray) -> tuple[Any, ...]:
        """Give one sample for an int, the stacked fields of several for a slice or a 1-D index array."""
        selection = resolve_index(index, len(self), "NDArrayDataset")
        return tuple(array[selection] for array in self.arrays)

    def __len__(self) -> int:
        """Give the number of samples."""
        return len(self.arrays[0])
