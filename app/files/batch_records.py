"""Per-batch records of a fit, in one append-only file.

The first line is JSON: the format and the names of the values. Records of equal size follow: epoch,
batch, and one value for each name. A record cut off by a crash is ignored. A fit that resumes from
a checkpoint first drops the records of later batches, so that no batch appears twice.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from app.errors.tree import Damaged, NotFound
from app.files.durable_files import hidden_sibling

__all__ = ["RecordKind", "RecordWriter", "read_names", "read_records"]

_log = logging.getLogger(__name__)

_FORMAT = 1
_LONGEST_HEADER = 1 << 22
_FLUSH_SECONDS = 0.5


class RecordKind:
    """What the records of a file hold for each name.

    Args:
        title: of the file, for errors.
        origin: what writes the file, for errors.
        value: dtype of the value of a name.
        blank: value of a batch that was recorded without this name.
    """

    def __init__(self, title: str, origin: str, value: npt.DTypeLike, blank: Any) -> None:
        self.title = title
        self.origin = origin
        self.blank = blank
        self._value = np.dtype(value)

    def dtype(self, names: Sequence[str]) -> np.dtype[Any]:
        """Return the dtype of a record, with the fields epoch, batch and values."""
        fields = [("epoch", "<u4"), ("batch", "<u4"), ("values", self._value, (len(names),))]
        return np.dtype(fields)


class RecordWriter:
    """Appends records.

    Every attempt writes a new file and renames it over the old one, so that late writes of a dead
    attempt go nowhere.
    """

    def __init__(
        self, path: Path, kind: RecordKind, names: Sequence[str], before: tuple[int, int]
    ) -> None:
        """Start a file with the earlier attempts' records of batches before a given one.

        Args:
            names: of the values in a record.
            before: (epoch, batch) of the first batch that is going to be recorded.
        """
        self._path, self._kind, self._names = path, kind, names
        self._dtype = kind.dtype(names)
        path.parent.mkdir(exist_ok=True)  # no parents: the module may have been deleted
        self._begin(_records_before(path, kind, names, before))

    @property
    def bytes_of_record(self) -> int:
        """Size of a record."""
        return self._dtype.itemsize

    def add(self, epoch: int, batch: int, values: Any) -> None:
        """Append the values of a batch, one for each name."""
        self._file.write(np.array([(epoch, batch, values)], self._dtype).tobytes())
        self.count += 1
        if time.monotonic() - self._flushed_at > _FLUSH_SECONDS:
            self.flush()

    def thin_out(self) -> None:
        """Drop every second record."""
        self._file.close()
        self._begin(read_records(self._path, self._kind)[1][::2])

    def flush(self) -> None:
        """Write buffered records to the file, for readers and in case this process dies."""
        self._file.flush()
        self._flushed_at = time.monotonic()

    def close(self) -> None:
        """Write what is buffered, if the disk has room for it."""
        try:
            self._file.close()
        except OSError as error:
            _log.warning("the end of %s could not be written: %s", self._file.name, error)

    def _begin(self, records: npt.NDArray[Any]) -> None:
        part = hidden_sibling(self._path, "part")
        try:
            with part.open("wb") as file:
                header = {"format": _FORMAT, "names": list(self._names)}
                file.write(json.dumps(header).encode() + b"\n")
                file.write(records.tobytes())
            os.replace(part, self._path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        self._file = self._path.open("ab")
        self._flushed_at = time.monotonic()
        self.count = len(records)


def read_names(path: Path, kind: RecordKind) -> list[str]:
    """Return the names in a file; raise NotFound or Damaged."""
    with _opened(path, kind) as file:
        return _read_names(file, path, kind)


def read_records(path: Path, kind: RecordKind) -> tuple[list[str], npt.NDArray[Any]]:
    """Return the names and all records of a file; raise NotFound or Damaged."""
    with _opened(path, kind) as file:
        names = _read_names(file, path, kind)
        content = file.read()
    dtype = kind.dtype(names)
    return names, np.frombuffer(content, dtype, len(content) // dtype.itemsize)


def _opened(path: Path, kind: RecordKind) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise NotFound(f"{kind.title} of job", path.stem, kind.origin) from None


def _read_names(file: BinaryIO, path: Path, kind: RecordKind) -> list[str]:
    try:
        header = json.loads(file.readline(_LONGEST_HEADER))
        if header["format"] != _FORMAT:
            raise ValueError(f"format {header['format']}")
        return [str(name) for name in header["names"]]
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"file {path.name}", error, kind.title) from None


def _records_before(
    path: Path, kind: RecordKind, names: Sequence[str], before: tuple[int, int]
) -> npt.NDArray[Any]:
    try:
        earlier, records = read_records(path, kind)
    except (NotFound, Damaged):
        return np.zeros(0, kind.dtype(names))
    epoch, batch = before
    is_later = (records["epoch"] > epoch) | (
        (records["epoch"] == epoch) & (records["batch"] >= batch)
    )
    records = records[: int(is_later.argmax()) if is_later.any() else len(records)]
    kept = np.zeros(len(records), kind.dtype(names))
    kept["epoch"], kept["batch"] = records["epoch"], records["batch"]
    kept["values"] = kind.blank
    for column, name in enumerate(names):
        if name in earlier:
            kept["values"][:, column] = records["values"][:, earlier.index(name)]
    return kept
