"""Rows of an array in a file, each read when it is needed.

A file that others can change is not mapped: once it is truncated, touching the map of its end kills
the process (SIGBUS), and with it the work of everybody else.
"""

from __future__ import annotations

import math
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from app.errors.tree import Conflict

__all__ = ["FileRows"]


class FileRows:
    """An array in C order within a file, of which only indexed rows are in memory."""

    def __init__(
        self, path: Path, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        """Open the file.

        Args:
            start: where the array begins in the file, in bytes.
            shape: of the array, of at least one axis.
        """
        self.shape = shape
        self.dtype = dtype
        self.ndim = len(shape)
        self._path = path
        self._start = start
        self._row_bytes = math.prod(shape[1:]) * dtype.itemsize
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._fd)
        self._version = self._read_version()

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: npt.NDArray[np.intp] | slice) -> npt.NDArray[Any]:
        """Return a copy of these rows.

        Raises:
            Conflict: the file was changed since it was opened.
        """
        wanted = np.arange(len(self))[rows] if isinstance(rows, slice) else rows
        array = np.empty((len(wanted), *self.shape[1:]), self.dtype)
        into, size = array.reshape(-1).view(np.uint8).data, self._row_bytes
        for begin, first, count in _runs(wanted):
            piece = into[begin * size : (begin + count) * size]
            self._fill(piece, self._start + first * size)
        if self._read_version() != self._version:
            raise self._changed()
        return array

    def _fill(self, piece: memoryview, position: int) -> None:
        while len(piece):
            count = os.preadv(self._fd, [piece], position)
            if not count:
                raise self._changed()
            piece, position = piece[count:], position + count

    def _read_version(self) -> tuple[int, int]:
        status = os.fstat(self._fd)
        return status.st_size, status.st_mtime_ns

    def _changed(self) -> Conflict:
        return Conflict(
            f"the file {self._path} was changed while a job read it; restore it or add it again "
            "by POST /v1/datasets, and then submit the job again"
        )


def _runs(rows: npt.NDArray[np.intp]) -> list[tuple[int, int, int]]:
    """Return consecutive rows as (position in ``rows``, first row, count), to read them at once."""
    if not len(rows):
        return []
    begins = np.flatnonzero(np.diff(rows, prepend=rows[0] - 2) != 1)
    counts = np.diff(begins, append=len(rows))
    return [(int(at), int(rows[at]), int(count)) for at, count in zip(begins, counts, strict=True)]
