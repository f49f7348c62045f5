"""IDX, the file format of MNIST: a magic number, the sizes, the elements in C order, all big-endian.

The format is described at the end of http://yann.lecun.com/exdb/mnist/: two zero bytes, a byte for
the element type, a byte for the number of dimensions, and a 32-bit size per dimension.
"""

from __future__ import annotations

import math
import os
import sys
from typing import Any

import numpy as np

from needle.data.gunzip import MAGIC as GZIP_MAGIC
from needle.data.gunzip import MAX_EXPANSION, GunzipStream
from needle.ops.checks import as_file

_DTYPES: dict[int, np.dtype[Any]] = {
    0x08: np.dtype("u1"),
    0x09: np.dtype("i1"),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}

# What every supported NumPy can make: NumPy 1 stops at 32 dimensions.
_MAX_DIMENSIONS = 32

_CHUNK = 1 << 20


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """Read an array from an IDX file, plain or gzip-compressed (told by its content, not its name).

    Nothing in the file is trusted: memory is taken only for data that really come, and a compressed
    file is expanded no further than its header announces.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Returns
    -------
    numpy.ndarray
        Of the shape that the header gives, C-contiguous and writable, of dtype uint8, int8, int16, int32,
        float32 or float64 in the machine's byte order.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not an IDX file, has an unknown element type, ends early, goes on after the last
        element, or its gzip data are damaged.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "labels-idx1-ubyte")
    ...     _ = path.write_bytes(bytes([0, 0, 0x08, 1]) + bytes([0, 0, 0, 3]) + bytes([7, 2, 1]))
    ...     read_idx(path)
    array([7, 2, 1], dtype=uint8)
    """
    path = as_file("read_idx", path)
    name = f"read_idx: {path}"
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if file.peek(len(GZIP_MAGIC))[: len(GZIP_MAGIC)] == GZIP_MAGIC:
            return _read_array(GunzipStream(file, name), size * MAX_EXPANSION, name)
        return _read_array(file, size, name)


def _read_array(stream: Any, most: int, name: str) -> np.ndarray:
    """Read a header and its elements from a stream that can hold no more than `most` bytes."""
    dtype, dimensions = _read_magic(stream, name)
    header = _read_up_to(stream, 4 * dimensions)
    if len(header) < 4 * dimensions:
        raise ValueError(
            f"{name}: truncated, the sizes of {dimensions} dimensions need {4 * dimensions} bytes, found {len(header)}"
        )
    shape = tuple(np.frombuffer(header, dtype=">u4").tolist())
    announced = f"the header announces shape {shape} of {dtype.newbyteorder('=')}"
    # NumPy multiplies the sizes that are not 0, even where the array is empty.
    if math.prod(size for size in shape if size) * dtype.itemsize > sys.maxsize:
        raise ValueError(f"{name}: {announced}, more than this machine can address")
    expected = math.prod(shape) * dtype.itemsize
    if expected > most:
        raise ValueError(
            f"{name}: truncated, {announced}, {expected} bytes, but a file of this size holds at most {most}"
        )
    content = _read_up_to(stream, expected)
    if len(content) < expected:
        raise ValueError(f"{name}: truncated, {announced}, {expected} bytes, but only {len(content)} follow")
    if stream.read(1):
        raise ValueError(f"{name}: trailing bytes, {announced}, {expected} bytes, but more follow")
    array = np.frombuffer(content, dtype=dtype).reshape(shape)
    return array.astype(dtype.newbyteorder("="), copy=False)


def _read_magic(stream: Any, name: str) -> tuple[np.dtype[Any], int]:
    """Read the first four bytes: the element type and the number of dimensions."""
    magic = _read_up_to(stream, 4)
    if not magic:
        raise ValueError(f"{name}: the file is empty, expected an IDX file")
    if magic[:2] != b"\0\0"[: len(magic)]:
        raise ValueError(
            f"{name}: not an IDX file, it starts with the bytes {magic.hex(' ')}; expected 00 00, a type "
            "code and the number of dimensions, or gzip data (1f 8b)"
        )
    if len(magic) < 4:
        raise ValueError(f"{name}: truncated, an IDX file starts with 4 bytes, found {len(magic)}")
    _, _, code, dimensions = magic
    if code not in _DTYPES:
        known = ", ".join(f"0x{known:02X} {dtype.newbyteorder('=')}" for known, dtype in _DTYPES.items())
        raise ValueError(f"{name}: unknown type code 0x{code:02X}; IDX has {known}")
    if dimensions > _MAX_DIMENSIONS:
        raise ValueError(f"{name}: {dimensions} dimensions, at most {_MAX_DIMENSIONS} can be read")
    return _DTYPES[code], dimensions


def _read_up_to(stream: Any, count: int) -> bytearray:
    """Read `count` bytes or what there is; memory grows with the data, whatever `count` says."""
    content = bytearray()
    while len(content) < count:
        piece = stream.read(min(count - len(content), _CHUNK))
        if not piece:
            break
        content += piece
    return content
