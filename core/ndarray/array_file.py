"""A ``.params`` file whose arrays are read one at a time, when they are asked for."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

import numpy as np

from ..device import Context
from ..errors import FormatError, MXNetError
from ..types import Shape
from .array import NDArray
from .handle import STORAGE_CLASSES
from .serialization import read_entries
from .stored import Source, StoredArray, read_array

__all__ = ["ArrayFile"]


class ArrayFile:
    """The arrays of a file by name.

    Attributes:
        names: in the order of the file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Find where each array begins, without reading any.

        Raises:
            FormatError: truncated, damaged, no such file format, or no names.
            MXNetError: the file cannot be read.
        """
        self._path = os.fspath(path)
        try:
            with open(self._path, "rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                source = _SkippingSource(stream, size, self._path)
                offsets: list[int] = []

                def note_offset(source: Source) -> None:
                    offsets.append(stream.tell())
                    read_array(source)

                _, names = read_entries(source, note_offset)
        except OSError as error:
            raise MXNetError(f"cannot read {self._path!r}: {error}") from error
        if offsets and not names:
            raise FormatError(f"{self._path}: the arrays have no names")
        self._offsets = dict(zip(names, offsets, strict=True))
        self._size = size

    @property
    def names(self) -> list[str]:
        """Names of the arrays, in the order of the file."""
        return list(self._offsets)

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """Return one array, a sparse one as a dense one.

        Raises:
            FormatError: it is damaged.
            MXNetError: the file cannot be read.
        """
        try:
            with open(self._path, "rb") as stream:
                stream.seek(self._offsets[name])
                left = self._size - self._offsets[name]
                source = Source(stream, left, f"{self._path}: {name}")
                return _densified(read_array(source))
        except OSError as error:
            raise MXNetError(f"cannot read {self._path!r}: {error}") from error


class _SkippingSource(Source):
    """Skips the elements of arrays, and reads everything else."""

    def __init__(self, stream: BinaryIO, size: int, name: str) -> None:
        super().__init__(stream, size, name)
        self._skipped = stream

    def array(self, shape: Shape, dtype: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
        if what != "elements":
            return super().array(shape, dtype, what)  # indices, whose values are checked
        # An array of this shape and dtype without memory for its elements, which nobody reads.
        outline = np.broadcast_to(np.zeros((), dtype), shape)
        self._need(outline.size * dtype.itemsize, what)
        self._skipped.seek(outline.size * dtype.itemsize, os.SEEK_CUR)
        return outline


def _densified(stored: StoredArray) -> np.ndarray[Any, Any]:
    if stored.stype == "default":
        return stored.data
    array: NDArray = STORAGE_CLASSES[stored.stype]()
    array.restore(stored, Context("cpu", 0))
    return array.asnumpy()
