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
from collections.abc import Iterable
from contextlib import closing
from typing import Any

import numpy as np

from ...device import Context
from ...ndarray import NDArray

__all__ = ["SharedObject", "write_object"]

_ALIGNMENT = 64
_VECTORS = 1024
"""Buffers that one call of the system may write."""

_SHARED = Context("cpu_shared", 0)


def write_object(value: Any) -> tuple[int, int]:
    """Put anything that can be pickled into memory of its own.

    Returns:
        the file of the memory, which the caller closes or hands on, and where in it the pickle
        begins; before that lie the arrays.
    """
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(value)
    views = [buffer.raw() for buffer in buffers]
    pieces: list[Any] = []
    places = []
    start = 0
    for view in views:
        places.append((start, view.nbytes))
        gap = -view.nbytes % _ALIGNMENT
        pieces += [view, bytes(gap)]
        start += view.nbytes + gap
    pieces += [pickle.dumps((places, stream.getvalue()))]
    file = _new_file()
    try:
        _write(file, pieces)
    except BaseException:
        os.close(file)
        raise
    return file, start


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
        view = memoryview(self._memory)
        places, content = pickle.loads(view[self._start :])
        return pickle.loads(content, buffers=[view[at : at + size] for at, size in places])


class _Pickler(pickle.Pickler):
    """Takes dense arrays as buffers, not as bytes of MXNet's format."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is NDArray:
            raw = value.dense()
            on_host = raw if isinstance(raw, np.ndarray) else value.asnumpy()
            return _array, (np.ascontiguousarray(on_host).reshape(on_host.shape),)
        return NotImplemented


def _array(raw: np.ndarray[Any, Any]) -> NDArray:
    return NDArray(raw, _SHARED)


def _new_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("batch")
    with closing(tempfile.TemporaryFile()) as stream:  # not on Linux
        return os.dup(stream.fileno())


def _write(file: int, pieces: Iterable[Any]) -> None:
    """Write all bytes, however few the system takes at a time."""
    left = [memoryview(piece).cast("B") for piece in pieces if len(piece)]
    while left:
        written = os.writev(file, left[:_VECTORS])
        while left and written >= left[0].nbytes:
            written -= left.pop(0).nbytes
        if written:
            left[0] = left[0][written:]
