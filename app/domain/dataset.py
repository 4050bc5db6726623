"""A dataset: a file the client uploaded, and what is known of its arrays."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["ArrayInfo", "DatasetKind", "DatasetRecord", "lengths_name"]


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
    """One array of a dataset: name, shape and NumPy's name of the dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetRecord:
    """A dataset as the service remembers it.

    Attributes:
        arrays: what a loader will find, without reading it; empty for opaque files.
        examples: length of the first axis, where all arrays agree on it; lines of a text file,
            records of a RecordIO file; None if it is not one number.
        classes: names of the classes of its images, in the order of their labels.
        size: bytes of the file.
        sha256: of the file, hexadecimal; its ETag.
        path: of an operator's file, which stays where it is; None if the file is ours.
        modified_ns: when that was last written, in nanoseconds since 1970.
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
        """A strong ETag, quotes included."""
        return f'"{self.sha256[:32]}"'

    @property
    def file_name(self) -> str:
        """Name of the file in the data directory; the digest keeps an old reader's file apart."""
        return f"{self.name}-{self.sha256[:16]}.{self.kind}"


def lengths_name(array: str) -> str:
    """Return the name of the array that counts the examples of one in which they differ in length.

    They lie one after the other in it.
    """
    return f"{array}_lengths"
