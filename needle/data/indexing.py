"""What datasets share: checking an index, and turning a value into a numeric NumPy array."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from needle.autograd import Tensor


def resolve_index(index: Any, length: int, owner: str) -> int | slice | np.ndarray:
    """Check `index` against a dataset of `length` samples before any array sees it.

    Parameters
    ----------
    index : int, slice, or 1-D array or list of integers or booleans
        Negative integers count from the end; a boolean mask has one entry per sample.
    length : int
        The number of samples.
    owner : str
        Who asks; the errors begin with it.

    Returns
    -------
    int, slice or numpy.ndarray
        The same selection: a Python int, the slice itself, or a 1-D integer array.

    Raises
    ------
    IndexError
        If an integer lies outside ``-length <= i < length``.
    TypeError
        If it is none of the kinds above.
    ValueError
        If an index array is not 1-D or a mask has another length than the dataset.

    Examples
    --------
    >>> resolve_index(-1, 3, "Words")
    -1
    >>> resolve_index(np.array([True, False, True]), 3, "Words").tolist()
    [0, 2]
    >>> resolve_index(3, 3, "Words")
    Traceback (most recent call last):
    IndexError: Words: index 3 is out of range for 3 samples (-3 to 2 would do)
    """
    if isinstance(index, slice):
        return index
    if isinstance(index, list) or (isinstance(index, np.ndarray) and index.ndim > 0):
        return _resolve_index_array(index, length, owner)
    try:
        position = operator.index(index)
    except TypeError:
        raise TypeError(
            f"{owner}: an index is an int, a slice or a 1-D array of integers, not {type(index).__name__}"
        ) from None
    if not -length <= position < length:
        raise IndexError(f"{owner}: index {position} {_out_of_range(length)}")
    return position


def _resolve_index_array(index: list | np.ndarray, length: int, owner: str) -> np.ndarray:
    positions = as_numeric_array(index, f"{owner}: the index array")
    if positions.ndim != 1:
        raise ValueError(f"{owner}: an index array is 1-D, this one has shape {positions.shape}")
    if positions.dtype.kind == "b":
        if len(positions) != length:
            raise ValueError(f"{owner}: a mask of {len(positions)} entries for {length} samples")
        return np.flatnonzero(positions)
    if not positions.size:
        # An empty list has no integers to give it an integer dtype.
        return np.empty(0, dtype=np.intp)
    if positions.dtype.kind not in "iu":
        raise TypeError(f"{owner}: an index array holds integers or booleans, not {positions.dtype}")
    for extreme in (int(positions.min()), int(positions.max())):
        if not -length <= extreme < length:
            raise IndexError(f"{owner}: index {extreme} in an index array {_out_of_range(length)}")
    return positions


def _out_of_range(length: int) -> str:
    hint = f" (-{length} to {length - 1} would do)" if length else ""
    return f"is out of range for {length} samples{hint}"


def as_numeric_array(value: Any, what: str) -> np.ndarray:
    """Give `value` as a NumPy array of booleans or real numbers, without a copy where there is one already.

    Parameters
    ----------
    value : array_like or Tensor
        Of any shape.
    what : str
        What the value is; the errors begin with it.

    Raises
    ------
    TypeError
        If the result would be something else (complex numbers, text, objects, unequal lengths inside).

    Examples
    --------
    >>> as_numeric_array([1.5, 2.0], "weights")
    array([1.5, 2. ])
    >>> as_numeric_array("abc", "weights")
    Traceback (most recent call last):
    TypeError: weights: real numbers or booleans are needed, got str of dtype <U3
    """
    if isinstance(value, Tensor):
        return value.numpy()
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what}: {type(value).__name__} does not make an array ({error})") from error
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{what}: real numbers or booleans are needed, got {type(value).__name__} of dtype {array.dtype}"
        )
    return array
