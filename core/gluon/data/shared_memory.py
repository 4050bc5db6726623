"""Transfer of objects between processes, with arrays in shared memory.

The memory is an anonymous file (memfd), so that nothing remains if a process is killed: the system
frees it with the last mapping.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...device import Context
from ...ndarray import NDArray

__all__ = ["Rows", "SharedObject", "write_object"]

_ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector of a processor (AVX-512)."""

_VECTORS = 1024
"""Largest number of buffers in one system call (IOV_MAX)."""

_SHARED = Context("cpu_shared", 0)

Raw = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """Arrays of equal shape and dtype that arrive as one stacked NDArray."""

    arrays: Sequence[Raw]


def write_object(value: Any) -> tuple[int, int]:
    """Write any picklable object to new shared memory.

    Returns:
        the file of the memory, which the caller must close or pass on, and the offset of the pickle
        in it; the arrays are before it.
    """
    stream = io.BytesIO()
    pickler = _Pickler(stream)
    pickler.dump(value)
    file = _new_file()
    try:
        _write(file, [*pickler.pieces, stream.getbuffer()])
    except BaseException:
        os.close(file)
        raise
    return file, pickler.size


class SharedObject:
    """An object that another process has written to shared memory; the constructor closes the file.

    Args:
        file, start: the results of ``write_object`` in that process.
    """

    def __init__(self, file: int, start: int) -> None:
        try:
            self._memory = mmap.mmap(file, 0)
        finally:
            os.close(file)
        self._start = start

    def load(self) -> Any:
        """Return the object; its arrays are not copied and are writable."""
        return _Unpickler(io.BytesIO(self._memory[self._start :]), self._memory).load()


class _Pickler(pickle.Pickler):
    """Replaces dense arrays in the pickle by their offsets in the memory.

    Attributes:
        pieces: the bytes of the arrays, in order.
        size: total number of these bytes.
    """

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=5)
        self.pieces: list[Any] = []
        self.size = 0

    def persistent_id(self, value: Any) -> Any:
        """Return (whether it is an NDArray, offset, shape, dtype) for an array, None for other
        objects."""
        kind = type(value)
        if kind is Rows:
            shape = (len(value.arrays), *value.arrays[0].shape)
            return self._add(True, shape, value.arrays)
        if kind is NDArray:
            raw = value.dense()
            raw = raw if isinstance(raw, np.ndarray) else value.asnumpy()
            return self._add(True, raw.shape, [raw])
        if kind is np.ndarray and not value.dtype.hasobject:
            return self._add(False, value.shape, [value])
        return None

    def _add(self, is_handle: bool, shape: tuple[int, ...], arrays: Sequence[Raw]) -> Any:
        start = self.size
        for raw in arrays:
            self.pieces.append(np.ascontiguousarray(raw).reshape(-1).view(np.uint8))
            self.size += raw.nbytes
        gap = -self.size % _ALIGNMENT
        self.pieces.append(bytes(gap))
        self.size += gap
        return is_handle, start, shape, arrays[0].dtype


class _Unpickler(pickle.Unpickler):
    """Restores the arrays that ``_Pickler`` has replaced."""

    def __init__(self, stream: io.BytesIO, memory: mmap.mmap) -> None:
        super().__init__(stream)
        self._memory = memory

    def persistent_load(self, found: Any) -> Any:
        """Return the array for a result of ``persistent_id``."""
        is_handle, start, shape, dtype = found
        raw: Raw = np.ndarray(shape, dtype, self._memory, start)
        return NDArray(raw, _SHARED) if is_handle else raw


def _new_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("batch")
    with tempfile.TemporaryFile() as stream:  # systems other than Linux
        return os.dup(stream.fileno())


def _write(file: int, pieces: Sequence[Any]) -> None:
    """Write all bytes, also if the system writes only some of them at a time."""
    left = [memoryview(piece).cast("B") for piece in pieces if len(piece)]
    first = 0
    while first < len(left):
        written = os.writev(file, left[first : first + _VECTORS])
        while first < len(left) and written >= left[first].nbytes:
            written -= left[first].nbytes
            first += 1
        if written:
            left[first] = left[first][written:]
