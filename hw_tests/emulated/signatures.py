"""What the installed cupy offers: its functions, and the arguments that each takes.

cupy can be imported without a driver, so this is asked of the library itself. Functions in Python have signatures;
those in Cython tell theirs in the first line of their docstring.
"""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it may find no CUDA toolkit, which is not needed to look at it
    import cupy as real

#: Keywords that a function takes as ``**kwargs``, from cupy's documentation of it.
_KEYWORDS = {"einsum": ("dtype", "optimize"), "pad": ("constant_values", "end_values", "stat_length")}


def find(path: str) -> Any:
    """The object of cupy at a dotted path, such as ``"linalg.norm"``; AttributeError if there is none."""
    found = real
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise AttributeError(f"cupy {real.__version__} has no {path}") from None
    return found


@functools.cache
def signature(path: str) -> inspect.Signature | None:
    """The signature of cupy's function at `path`, None if it does not tell."""
    function = find(path)
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        line = (function.__doc__ or "").partition("\n")[0].replace("\\", "")
        match = re.match(r"[\w.]+\((.*?)\)(?: ->.*)?$", line)
        return parse(match.group(1)) if match else None


def parse(text: str) -> inspect.Signature:
    """The signature that a docstring such as ``sum(self, int axis=None, *, out=None)`` states."""
    kind, parameters = inspect.Parameter.POSITIONAL_OR_KEYWORD, []
    for piece in (part.strip() for part in text.split(",")):
        if piece == "/":
            parameters = [p.replace(kind=inspect.Parameter.POSITIONAL_ONLY) for p in parameters]
            continue
        if piece == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
            continue
        left, equals, _ = piece.partition("=")
        name = left.split()[-1]
        if name.startswith("*"):
            parameters.append(inspect.Parameter(name[1:], inspect.Parameter.VAR_POSITIONAL))
            kind = inspect.Parameter.KEYWORD_ONLY
            continue
        parameters.append(inspect.Parameter(name, kind, default=None if equals else inspect.Parameter.empty))
    return inspect.Signature(parameters)


_seen: set[tuple] = set()


def check_call(path: str, args: tuple, kwargs: dict) -> None:
    """TypeError unless cupy's function at `path` can be called with these arguments."""
    shape = (path, len(args), tuple(kwargs))
    if shape in _seen:
        return
    expected = signature(path)
    if expected is not None:
        try:
            expected.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"cupy.{path}{expected}: {error}") from None
        if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in expected.parameters.values()):
            unknown = set(kwargs) - set(expected.parameters) - set(_KEYWORDS.get(path, kwargs))
            if unknown:
                raise TypeError(f"cupy.{path} takes no {', '.join(sorted(unknown))}")
    _seen.add(shape)
