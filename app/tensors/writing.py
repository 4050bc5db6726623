"""Writing large bodies in steps, so that other threads get the interpreter's lock in between."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson

__all__ = ["MemoryFile", "as_octets", "join", "json_pieces"]

HostArray = npt.NDArray[Any]
Buffer: TypeAlias = bytes | memoryview

_NUMBERS_AT_ONCE = 1 << 13  # holds the lock for less than a millisecond


def json_pieces(array: HostArray) -> Iterator[bytes]:
    """Yield the JSON text of an array as nested lists."""
    if array.size <= _NUMBERS_AT_ONCE or array.ndim == 0:
        yield orjson.dumps(array.tolist())
        return
    rows = _NUMBERS_AT_ONCE // max(1, array.size // len(array))  # 0 if one row is too large
    opening = b"["
    for begin in range(0, len(array), max(1, rows)):
        yield opening
        if rows:
            yield orjson.dumps(array[begin : begin + rows].tolist())[1:-1]
        else:
            yield from json_pieces(array[begin])
        opening = b","
    yield b"]"


def join(pieces: Iterable[Buffer | HostArray]) -> memoryview:
    """Join pieces into one buffer.

    NumPy copies without the interpreter's lock; ``bytes.join`` does so only if all pieces are
    ``bytes``.
    """
    parts = [as_octets(piece) for piece in pieces]
    whole = np.empty(sum(part.size for part in parts), np.uint8)
    end = 0
    for part in parts:
        begin, end = end, end + part.size
        whole[begin:end] = part
    return whole.data


class MemoryFile(io.RawIOBase):
    """An in-memory file of fixed capacity, for libraries that write to files."""

    def __init__(self, size: int) -> None:
        self._whole = np.empty(size, np.uint8)  # takes no memory before it is written to
        self._at = 0
        self._end = 0

    def write(self, data: Any) -> int:
        """Write bytes at the current position."""
        part = as_octets(data)
        self._whole[self._at : self._at + part.size] = part
        self._at += part.size
        self._end = max(self._end, self._at)
        return int(part.size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._end}[whence]
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def seekable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return True."""
        return True

    def content(self) -> memoryview:
        """Return what was written."""
        return self._whole[: self._end].data


def as_octets(data: Buffer | HostArray) -> npt.NDArray[np.uint8]:
    """Return the bytes of an array or buffer.

    ``np.frombuffer`` refuses empty buffers in some NumPy versions.
    """
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8)
