"""Checks of arguments that several op families share."""

from __future__ import annotations

import operator
from typing import Any


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
