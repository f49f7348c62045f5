"""The batch files of CIFAR-10, which are pickles, read without ever running what a pickle asks for.

A pickle is a program: it names functions, and unpickling calls them. These files need four names, all of NumPy's way to
pickle an array; any other one is refused where it is named. And even those four are not called: the array's parts are
only recorded, checked, and then an array is made of them here.
"""

from __future__ import annotations

import io
import os
import pickle
import pickletools
from typing import Any, NoReturn

import numpy as np

#: What NumPy's pickles of an array name; since NumPy 2 the modules have an underscore.
_ARRAY_NAMES = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    *[(f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")],
    *[(f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")],
}


class _Name:
    """A name that the file may use. Calling it records its arguments."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *arguments: Any) -> _Recorded:
        return _Recorded(self.name, arguments)


class _Recorded:
    """What the file says how to make, not made."""

    __slots__ = ("arguments", "name", "state")

    def __init__(self, name: str, arguments: tuple) -> None:
        self.name = name
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _RecordingUnpickler(pickle.Unpickler):
    """Knows NumPy's four names, records what is done with them, and refuses all others."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ARRAY_NAMES:
            return _Name(name)
        raise pickle.UnpicklingError(
            f"it asks for {module}.{name}, and CIFAR-10 files hold nothing but arrays, lists, numbers and byte "
            "strings; nothing was run. Do not trust where this file comes from"
        )

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("it refers to objects outside the file, which CIFAR-10 files do not")


def read_cifar_batch(path: str | os.PathLike[str]) -> tuple[np.ndarray, np.ndarray]:
    """Read one batch file of CIFAR-10 ("python version").

    Nothing in the file is trusted: no function that it names is called, whatever it is, and no memory is taken that the
    file's size does not cover.

    Parameters
    ----------
    path : str or os.PathLike
        For instance ``cifar-10-batches-py/data_batch_1``.

    Returns
    -------
    images : numpy.ndarray of uint8, shape (n, 3, 32, 32)
        Red, green and blue levels from 0 to 255.
    labels : numpy.ndarray of uint8, shape (n,)
        Classes, 0 to 9.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is truncated, holds something else than arrays and byte strings, or they are not those of CIFAR-10.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> content = {b"data": np.zeros((2, 3072), dtype=np.uint8), b"labels": [3, 9]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "data_batch_1")
    ...     _ = path.write_bytes(pickle.dumps(content))
    ...     images, labels = read_cifar_batch(path)
    >>> images.shape, labels
    ((2, 3, 32, 32), array([3, 9], dtype=uint8))
    """
    name = f"read_cifar_batch: {os.fspath(path)}"
    with open(path, "rb") as file:
        data = file.read()
    content = _recorded_content(data, name)
    if not isinstance(content, dict) or not {b"data", b"labels"} <= content.keys():
        found = ", ".join(map(repr, content)) if isinstance(content, dict) else type(content).__name__
        raise ValueError(f"{name}: a dictionary with b'data' and b'labels' is needed, found {found}")
    pixels = _as_array(content[b"data"], name)
    labels = content[b"labels"]
    if not isinstance(labels, list) or not all(type(label) is int and 0 <= label <= 9 for label in labels):
        raise ValueError(f"{name}: b'labels' must be a list of integers from 0 to 9")
    if len(labels) != len(pixels):
        raise ValueError(f"{name}: {len(pixels)} images but {len(labels)} labels")
    return pixels.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.uint8)


def _recorded_content(data: bytes, name: str) -> Any:
    """What the pickle holds, with records in place of arrays."""
    try:
        _check_opcodes(data)
        return _RecordingUnpickler(io.BytesIO(data), encoding="bytes").load()
    except pickle.UnpicklingError as error:
        raise ValueError(f"{name}: not a CIFAR-10 batch: {error}") from error
    except Exception as error:  # a damaged pickle can fail in any way that its opcodes can
        text = f"{type(error).__name__}: {error}"
        raise ValueError(f"{name}: not a CIFAR-10 batch, or truncated or damaged ({text})") from error


def _check_opcodes(data: bytes) -> None:
    """Go through the opcodes without executing any, to find where one asks for more memory than the file is large."""
    for position, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and (argument or 0) > position:
            raise pickle.UnpicklingError(f"it files an object under number {argument} after {position} opcodes")


def _as_array(record: Any, name: str) -> np.ndarray:
    """The array of pixels that a record describes: uint8, shape (n, 3072)."""
    raw: Any
    if isinstance(record, _Recorded) and record.name == "_reconstruct" and _is_tuple(record.state, 5):
        _, shape, dtype, fortran, raw = record.state
    elif isinstance(record, _Recorded) and record.name == "_frombuffer" and _is_tuple(record.arguments, 4):
        raw, dtype, shape, order = record.arguments
        fortran = order == "F"
    else:
        raise ValueError(f"{name}: b'data' must be an array, found {type(record).__name__}")
    code = dtype.arguments[0] if isinstance(dtype, _Recorded) and dtype.name == "dtype" and dtype.arguments else None
    if code not in (b"u1", "u1") or not _is_tuple(shape, 2) or shape[1] != 3 * 32 * 32 or type(shape[0]) is not int:
        raise ValueError(f"{name}: b'data' must be an array of uint8 of shape (n, 3072), found {code!r} of {shape!r}")
    if not isinstance(raw, (bytes, bytearray)) or len(raw) != shape[0] * shape[1]:
        length = f"{len(raw)} bytes" if isinstance(raw, (bytes, bytearray)) else type(raw).__name__
        raise ValueError(f"{name}: b'data' announces shape {shape}, but {length} follow")
    pixels = np.frombuffer(raw, dtype=np.uint8).reshape(shape, order="F" if fortran else "C")
    return np.array(pixels, order="C")


def _is_tuple(value: Any, length: int) -> bool:
    return type(value) is tuple and len(value) == length
