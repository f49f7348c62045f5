"""Checks of arguments that several op families share."""

from __future__ import annotations

import numbers
import operator
import os
from typing import Any

import numpy as np


def as_integer(name: str, what: str, value: Any, least: int) -> int:
    """`value` as a Python integer of at least `least`.

    Raises
    ------
    TypeError
        If it is no integer.
    ValueError
        If it is smaller.

    Examples
    --------
    >>> as_integer("Conv", "stride", 0, least=1)
    Traceback (most recent call last):
    ValueError: Conv: stride is an integer of at least 1, got 0
    """
    try:
        integer = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: {what} is an integer of at least {least}, got {value!r}") from None
    if integer < least:
        raise ValueError(f"{name}: {what} is an integer of at least {least}, got {integer}")
    return integer


def check_real(name: str, what: str, value: Any) -> None:
    """Raise TypeError unless `value` is a real number."""
    if type(value) is not float and (isinstance(value, bool) or not isinstance(value, numbers.Real)):
        raise TypeError(f"{name}: {what} is a number, got {type(value).__name__}")


def check_floating(name: str, what: str, value: Any) -> None:
    """Raise TypeError unless a tensor or an array is of a floating dtype."""
    if value.dtype.kind != "f":
        raise TypeError(f"{name}: {what} of a floating dtype is needed, got {value.dtype}: use astype('float32')")


def as_flag(name: str, what: str, value: Any) -> bool:
    """`value` as a boolean if it is one, else a TypeError."""
    if value is not True and value is not False and not isinstance(value, np.bool_):
        raise TypeError(f"{name}: {what} is True or False, got {value!r}")
    return bool(value)


def as_array(name: str, what: str, value: Any) -> np.ndarray:
    """`value` as a NumPy array, where lists of unequal lengths inside are a TypeError."""
    try:
        return np.asarray(value)
    except ValueError:
        raise TypeError(f"{name}: {what} do not make an array: the lists in it have unequal lengths") from None


def as_path(name: str, what: str, value: Any) -> str:
    """`value` as a str if it is a path, else a TypeError."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name}: {what} is a path, a str or an os.PathLike, got {value!r}")
    return os.fspath(value)


def as_file(name: str, path: Any) -> str:
    """`path` as a str if it is a path and there is a file, else a TypeError or a FileNotFoundError."""
    found = as_path(name, "a file's name", path)
    if not os.path.exists(found):
        raise FileNotFoundError(f"{name}: there is no file {found}")
    if os.path.isdir(found):
        raise FileNotFoundError(f"{name}: {found} is a folder: the name of a file in it is needed")
    return found
