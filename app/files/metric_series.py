"""Every batch's loss and metrics of a fit: one append-only file a job.

The first line is JSON: the format and the names of the values. Records of equal size follow: epoch,
batch, and a float64 for each name. A record that a death cut off is left out; a fit that goes on
from a checkpoint first leaves out what came after it, so that no batch appears twice.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from app.errors import Damaged, NotFound
from app.files.durable_files import hidden_sibling

__all__ = ["Series", "SeriesWriter", "read_series", "series_names", "series_path"]

_log = logging.getLogger(__name__)

_FORMAT = 1
_LONGEST_HEADER = 1 << 16
_FLUSH_SECONDS = 0.5


def series_path(module_directory: Path, job_id: int) -> Path:
    """Return where the series of a job of a module lies."""
    return module_directory / "metrics" / f"{job_id}.series"


@dataclass(frozen=True, slots=True)
class Series:
    """One value over the batches of a fit, down-sampled.

    Attributes:
        total: batches there are.
        steps: numbers of the batches that were chosen, counted from the first of all.
        epochs, batches: where in the training each was, from 0.
        values: of each; NaN where it was none.
    """

    total: int
    steps: npt.NDArray[np.intp]
    epochs: npt.NDArray[np.uint32]
    batches: npt.NDArray[np.uint32]
    values: npt.NDArray[np.float64]


class SeriesWriter:
    """Appends records. An attempt writes a file of its own, in the place of the one before: what a
    dead attempt may still write goes nowhere."""

    def __init__(self, path: Path, names: Sequence[str], before: tuple[int, int]) -> None:
        """Begin, with the records of earlier attempts before a place.

        Args:
            names: of the values of a record.
            before: (epoch, batch) of the first batch that is to come.
        """
        self._form = _form(names)
        path.parent.mkdir(exist_ok=True)  # without its parent: the module may have been deleted
        part = hidden_sibling(path, "part")
        try:
            with part.open("wb") as file:
                header = {"format": _FORMAT, "names": list(names)}
                file.write(json.dumps(header).encode() + b"\n")
                _copy_before(path, names, before, file)
            os.replace(part, path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        self._file = path.open("ab")
        self._flushed_at = time.monotonic()

    def add(self, epoch: int, batch: int, values: Sequence[float | None]) -> None:
        """Append the values of a batch; None where there is none."""
        numbers = [np.nan if value is None else value for value in values]
        self._file.write(np.array([(epoch, batch, numbers)], self._form).tobytes())
        if time.monotonic() - self._flushed_at > _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Let readers, and a fit that goes on after this process died, find all of it."""
        self._file.flush()
        self._flushed_at = time.monotonic()

    def close(self) -> None:
        """Write what is left, where there is room for it."""
        try:
            self._file.close()
        except OSError as error:
            _log.warning("the end of %s could not be written: %s", self._file.name, error)


def series_names(path: Path) -> list[str]:
    """Return the names of the series in a file; raise NotFound or Damaged."""
    with _opened(path) as file:
        return _read_names(file, path)


def read_series(path: Path, name: str, points: int) -> Series:
    """Return a series, of which so many points at most.

    Where there are more batches, the least and the greatest of each stretch stand for it.

    Raises:
        NotFound: there is no such file or series.
        Damaged: it is no such file.
    """
    with _opened(path) as file:
        names = _read_names(file, path)
        if name not in names:
            raise NotFound("series", name, f"the job has {', '.join(names)}")
        records = _read_records(file, names)
    values = records["values"][:, names.index(name)]
    steps = _extremes(values, points)
    chosen = records[steps]
    return Series(len(records), steps, chosen["epoch"], chosen["batch"], values[steps])


def _form(names: Sequence[str]) -> np.dtype[Any]:
    return np.dtype([("epoch", "<u4"), ("batch", "<u4"), ("values", "<f8", (len(names),))])


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise NotFound(
            "series of job", path.stem, "a fit writes one from its first batch"
        ) from None


def _read_names(file: BinaryIO, path: Path) -> list[str]:
    try:
        header = json.loads(file.readline(_LONGEST_HEADER))
        if header["format"] != _FORMAT:
            raise ValueError(f"format {header['format']}")
        return [str(name) for name in header["names"]]
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"file {path.name}", error, "a series of metrics") from None


def _read_records(file: BinaryIO, names: Sequence[str]) -> npt.NDArray[Any]:
    form = _form(names)
    content = file.read()
    return np.frombuffer(content, form, len(content) // form.itemsize)


def _copy_before(
    path: Path, names: Sequence[str], before: tuple[int, int], target: BinaryIO
) -> None:
    try:
        with _opened(path) as file:
            if _read_names(file, path) != list(names):
                return
            records = _read_records(file, names)
            epoch, batch = before
            is_later = (records["epoch"] > epoch) | (
                (records["epoch"] == epoch) & (records["batch"] >= batch)
            )
            count = int(is_later.argmax()) if is_later.any() else len(records)
            target.write(records[:count].tobytes())
    except (NotFound, Damaged):
        return


def _extremes(values: npt.NDArray[np.float64], points: int) -> npt.NDArray[np.intp]:
    """Return the positions of the least and greatest value of each of points/2 stretches."""
    count = len(values)
    if count <= points:
        return np.arange(count)
    bounds = np.linspace(0, count, max(1, points // 2) + 1).astype(np.intp)
    chosen: set[int] = set()
    for start, end in pairwise(bounds):
        stretch = values[start:end]
        if not len(stretch) or np.isnan(stretch).all():
            chosen.update([int(start)] if len(stretch) else [])
        else:
            chosen.update((int(start + np.nanargmin(stretch)), int(start + np.nanargmax(stretch))))
    return np.array(sorted(chosen), dtype=np.intp)
