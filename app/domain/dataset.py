"""A dataset: a file uploaded by a client, and its arrays."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["MAX_CLASSES", "TEXT", "ArrayInfo", "DatasetKind", "DatasetRecord", "lengths_name"]

TEXT = "str"
"""The dtype of an array of texts that are no classes."""

MAX_CLASSES = 1000
"""Limit on the different texts of a column, beyond which they are no classes."""


class DatasetKind(StrEnum):
    """The format of the file."""

    NPZ = "npz"
    NPY = "npy"
    CSV = "csv"
    JSONL = "jsonl"
    LIBSVM = "libsvm"
    RECORDIO = "recordio"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayInfo:
    """One array of a dataset.

    Attributes:
        name: unique in the dataset.
        shape: the first axis counts the examples.
        dtype: NumPy's name for it; ``TEXT`` for texts that are no classes.
        classes: the texts whose places the array has, if it is a column of texts.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    classes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetRecord:
    """The record of a dataset.

    Attributes:
        arrays: in the file, so that it need not be read; empty for opaque files.
        examples: length of the first axis, if it is the same for all arrays; lines of a text file,
            records of a RecordIO file; None if the lengths differ.
        classes: names of the classes of its images, in the order of their labels.
        size: bytes of the file.
        sha256: of the file, hexadecimal; its ETag.
        path: of an operator's file, which is not copied; None if the file is ours.
        modified_ns: modification time of that file, in nanoseconds since 1970.
    """

    id: int = 0
    name: str
    kind: DatasetKind
    arrays: tuple[ArrayInfo, ...] = ()
    examples: int | None = None
    classes: tuple[str, ...] = ()
    size: int
    sha256: str
    created_at: float = 0.0
    path: str | None = None
    modified_ns: int | None = None

    @property
    def etag(self) -> str:
        """A strong ETag, including quotes."""
        return f'"{self.sha256[:32]}"'

    @property
    def file_name(self) -> str:
        """Name of the file in the data directory; the digest distinguishes it from a replaced
        one that is still being read.
        """
        return f"{self.name}-{self.sha256[:16]}.{self.kind}"


def lengths_name(array: str) -> str:
    """Return the name of the array with the lengths of a ragged array's examples, which are
    concatenated in it.
    """
    return f"{array}_lengths"
