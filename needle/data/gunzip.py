"""A gzip stream for files that nobody vouches for: strict, and expanded no further than it is read."""

from __future__ import annotations

import io
import zlib
from typing import Any, BinaryIO

MAGIC = b"\x1f\x8b"

#: Deflate's best case is 2 bits for a run of 258 bytes, so no file expands by more than this factor.
MAX_EXPANSION = 258 * 8 // 2

_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_COMPRESSED_CHUNK = 1 << 14


class GunzipStream(io.RawIOBase):
    """The expanded bytes of a gzip file, member after member.

    ``read(n)`` expands at most n bytes. Against `gzip.GzipFile` it is strict: bytes after the last
    member are an error, zeros included, and every kind of damage is a ValueError that names the file.
    The checksum is verified where a member ends, so a reader should read on to the end of the stream.

    Parameters
    ----------
    file : binary file
        Open for reading, at the start of the gzip data.
    name : str
        The file's name, for the errors.

    Raises
    ------
    ValueError
        While reading: if the data are damaged, end early or are followed by something else.

    Examples
    --------
    >>> import gzip
    >>> GunzipStream(io.BytesIO(gzip.compress(b"needle")), "example.gz").read(4)
    b'need'
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        super().__init__()
        self._file = file
        self._name = name
        self._compressed = b""
        self._member: Any = None
        self._members_read = 0

    def readable(self) -> bool:
        """Say that the stream can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` as far as the next piece of data goes; 0 means the end."""
        target = memoryview(buffer).cast("B")
        while len(target):
            self._compressed = self._compressed or self._file.read(_COMPRESSED_CHUNK)
            if self._member is None:
                if not self._compressed and self._members_read:
                    return 0
                self._start_member()
            expanded = self._expand(len(target))
            if expanded:
                target[: len(expanded)] = expanded
                return len(expanded)
        return 0

    def _start_member(self) -> None:
        head = self._compressed[: len(MAGIC)]
        if self._members_read and head != MAGIC[: len(head)]:
            raise ValueError(f"{self._name}: trailing bytes after the end of the gzip data ({head.hex(' ')} …)")
        self._member = zlib.decompressobj(_GZIP_FORMAT)

    def _expand(self, limit: int) -> bytes:
        """Expand up to `limit` bytes of the member; nothing may come out although there is more to read."""
        starved = not self._compressed
        try:
            expanded = self._member.decompress(self._compressed, limit)
        except zlib.error as error:
            raise ValueError(f"{self._name}: damaged gzip data ({error})") from error
        if self._member.eof:
            self._compressed = self._member.unused_data
            self._member = None
            self._members_read += 1
        else:
            self._compressed = self._member.unconsumed_tail
            if starved and not expanded:
                raise ValueError(f"{self._name}: truncated, the gzip data end before their checksum")
        return expanded
