"""Objects handed from one process to another: their arrays lie in memory that both have mapped.

The memory has no name, so that nothing is left of it where a process is killed: it is freed when
the last array in it is gone.
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
_VECTORS = 1024
"""Buffers that one call of the system may write."""

_SHARED = Context("cpu_shared", 0)

Raw = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """Arrays of one shape and dtype that are to arrive as one NDArray, stacked as they are sent."""

    arrays: Sequence[Raw]


def write_object(value: Any) -> tuple[int, int]:
    """Put anything that can be pickled into memory of its own.

    Returns:
        the file of the memory, which the caller closes or hands on, and where in it the pickle
        begins; before that lie the arrays.
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
    """What another process put into memory; the file is closed at once.

    Args:
        file, start: what ``write_object`` returned there.
    """

    def __init__(self, file: int, start: int) -> None:
        try:
            self._memory = mmap.mmap(file, 0)
        finally:
            os.close(file)
        self._start = start

    def load(self) -> Any:
        """Return the object; its arrays are not copied, and may be written to."""
        return _Unpickler(io.BytesIO(self._memory[self._start :]), self._memory).load()


class _Pickler(pickle.Pickler):
    """Leaves dense arrays out of the pickle, which says where in the memory they are.

    Attributes:
        pieces: the bytes of the arrays, in order.
        size: how many they are.
    """

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=5)
        self.pieces: list[Any] = []
        self.size = 0

    def persistent_id(self, value: Any) -> Any:
        """Return (whether it is an NDArray, place, shape, dtype) of an array, None of others."""
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
    """Finds the arrays that ``_Pickler`` has left out."""

    def __init__(self, stream: io.BytesIO, memory: mmap.mmap) -> None:
        super().__init__(stream)
        self._memory = memory

    def persistent_load(self, found: Any) -> Any:
        """Return the array of an answer of ``persistent_id``."""
        is_handle, start, shape, dtype = found
        raw: Raw = np.ndarray(shape, dtype, self._memory, start)
        return NDArray(raw, _SHARED) if is_handle else raw


def _new_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("batch")
    with tempfile.TemporaryFile() as stream:  # not on Linux
        return os.dup(stream.fileno())


def _write(file: int, pieces: Sequence[Any]) -> None:
    """Write all bytes, however few the system takes at a time."""
    left = [memoryview(piece).cast("B") for piece in pieces if len(piece)]
    first = 0
    while first < len(left):
        written = os.writev(file, left[first : first + _VECTORS])
        while first < len(left) and written >= left[first].nbytes:
            written -= left[first].nbytes
            first += 1
        if written:
            left[first] = left[first][written:]
