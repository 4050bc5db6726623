"""Loss, metrics and learning rate of each batch of a fit: one file a job, see ``batch_records``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from app.errors.tree import NotFound
from app.files.batch_records import RecordKind, RecordWriter, read_names, read_records

__all__ = ["Series", "SeriesWriter", "read_series", "series_names", "series_path"]

_KIND = RecordKind("series", "a fit writes one from its first batch on", "<f8", np.nan)


def series_path(module_directory: Path, job_id: int) -> Path:
    """Return the path of the series of a module's job."""
    return module_directory / "metrics" / f"{job_id}.series"


@dataclass(frozen=True, slots=True)
class Series:
    """One value over the batches of a fit, downsampled.

    Attributes:
        total: number of batches in the file.
        steps: numbers of the chosen batches, counted from the start of the training.
        epochs, batches: position of each in the training, from 0.
        values: one for each; NaN if the batch had none.
    """

    total: int
    steps: npt.NDArray[np.intp]
    epochs: npt.NDArray[np.uint32]
    batches: npt.NDArray[np.uint32]
    values: npt.NDArray[np.float64]


class SeriesWriter(RecordWriter):
    """Appends the values of batches."""

    def __init__(self, path: Path, names: Sequence[str], before: tuple[int, int]) -> None:
        super().__init__(path, _KIND, names, before)

    def add(self, epoch: int, batch: int, values: Sequence[float | None]) -> None:
        """Append the values of a batch; None for one that is missing."""
        super().add(epoch, batch, [np.nan if value is None else value for value in values])


def series_names(path: Path) -> list[str]:
    """Return the names of the series in a file; raise NotFound or Damaged."""
    return read_names(path, _KIND)


def read_series(path: Path, name: str, points: int) -> Series:
    """Return a series with up to ``points`` points.

    A longer series is cut into stretches, each represented by its least and greatest value.

    Raises:
        NotFound: there is no such file or series.
        Damaged: the file is not a file of metrics.
    """
    names, records = read_records(path, _KIND)
    if name not in names:
        raise NotFound("series", name, f"the job has {', '.join(names)}")
    values = records["values"][:, names.index(name)]
    steps = _extremes(values, points)
    chosen = records[steps]
    return Series(len(records), steps, chosen["epoch"], chosen["batch"], values[steps])


def _extremes(values: npt.NDArray[np.float64], points: int) -> npt.NDArray[np.intp]:
    """Return the positions of the least and greatest value of each of points/2 stretches."""
    count = len(values)
    if count <= points:
        return np.arange(count)
    size = -(-count // max(1, points // 2))
    starts = np.arange(0, count, size)
    filled = np.full(len(starts) * size, np.nan)
    filled[:count] = values
    stretches = filled.reshape(-1, size)
    is_none = np.isnan(stretches)
    least = starts + np.where(is_none, np.inf, stretches).argmin(axis=1)
    greatest = starts + np.where(is_none, -np.inf, stretches).argmax(axis=1)
    return np.unique(np.concatenate([least, greatest]))
