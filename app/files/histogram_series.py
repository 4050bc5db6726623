"""Histograms of a fit's weights and gradients over time: one file a job, see ``batch_records``.

<data>/modules/<module>/metrics/<job>.histograms
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from app.domain.named_arrays import ARRAY_KINDS, NamedArray
from app.errors.tree import Damaged, NotFound
from app.files.batch_records import RecordKind, RecordWriter, read_records
from app.files.bin_counts import bin_counts

__all__ = [
    "HistogramWriter",
    "Histograms",
    "histogram_of",
    "histograms_path",
    "read_histograms",
]

BINS = 32
_MOST_BYTES = 32 << 20
_CHUNK = 1 << 18
_HISTOGRAM = [("low", "<f4"), ("high", "<f4"), ("nonfinite", "<u4"), ("counts", "<u4", (BINS,))]
_KIND = RecordKind("histograms", "only a fit with a monitor records them", _HISTOGRAM, 0)

HostArray: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Histograms:
    """Histograms of one array over the batches of a fit, in bins of equal width.

    Attributes:
        arrays: all arrays of the fit that have histograms.
        array: the array of these histograms.
        total: number of histograms in the file.
        epochs, batches: when in the training each was taken, from 0.
        lows, highs: least and greatest finite element of each.
        nonfinite: number of elements of each that are not finite.
        counts: (histograms, bins), of the finite elements.
    """

    arrays: list[NamedArray]
    array: NamedArray
    total: int
    epochs: HostArray
    batches: HostArray
    lows: HostArray
    highs: HostArray
    nonfinite: HostArray
    counts: HostArray


class HistogramWriter(RecordWriter):
    """Appends histograms.

    When the file reaches 32 MiB, every second one is dropped and only half as many are recorded.
    """

    def __init__(self, path: Path, arrays: Sequence[NamedArray], before: tuple[int, int]) -> None:
        super().__init__(path, _KIND, [f"{of}:{name}" for of, name in arrays], before)
        self._every = 1
        self._passed = 0

    def begin_batch(self) -> bool:
        """Count a batch; return whether its histograms should be recorded."""
        self._passed += 1
        return (self._passed - 1) % self._every == 0

    def add(self, epoch: int, batch: int, values: Sequence[HostArray]) -> None:
        """Append the histograms of a batch, one for each array, as ``histogram_of`` made them."""
        super().add(epoch, batch, np.array(values, _HISTOGRAM))
        if self.count > 2 and self.count * self.bytes_of_record > _MOST_BYTES:
            self.thin_out()
            self._every *= 2


def _named(text: str) -> NamedArray:
    of, _, name = text.partition(":")
    for kind in ARRAY_KINDS:
        if of == kind:
            return NamedArray(kind, name)
    expected = f"{' or '.join(ARRAY_KINDS)}, a colon and a name"
    raise Damaged("histograms", text, expected)


def histograms_path(series: Path) -> Path:
    """Return the path of a job's histograms, beside its metrics."""
    return series.with_suffix(".histograms")


def histogram_of(arrays: Sequence[HostArray]) -> HostArray:
    """Return the histogram of all elements of some arrays, as a record.

    Values that overflow float32 count as not finite.
    """
    chunks = [part for one in arrays for part in _finite_chunks(one)]
    count = sum(chunk.size for chunk in chunks)
    made = np.zeros((), _HISTOGRAM)
    made["nonfinite"] = sum(one.size for one in arrays) - count
    if count:
        low = min(float(chunk.min()) for chunk in chunks)
        high = max(float(chunk.max()) for chunk in chunks)
        made["low"], made["high"] = low, high
        made["counts"] = sum(
            bin_counts(chunk.astype(np.float64), BINS, low, high) for chunk in chunks
        )
    return made


def _finite_chunks(array: HostArray) -> Iterator[HostArray]:
    flat = array.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        with np.errstate(over="ignore"):
            chunk = flat[start : start + _CHUNK].astype(np.float32)
        finite = chunk[np.isfinite(chunk)]
        if finite.size:
            yield finite


def read_histograms(path: Path, array: NamedArray | None, points: int) -> Histograms:
    """Return up to ``points`` evenly chosen histograms of an array.

    Args:
        array: None chooses the first.

    Raises:
        NotFound: there is no such file or array.
        Damaged: the file is not a file of histograms.
    """
    names, records = read_records(path, _KIND)
    arrays = [_named(name) for name in names]
    if array is None and arrays:
        array = arrays[0]
    if array is None or array not in arrays:
        shown = ", ".join(f"{of} {name}" for of, name in arrays) or "none"
        raise NotFound(
            "histograms", "" if array is None else " ".join(array), f"there are: {shown}"
        )
    places = np.unique(np.linspace(0, max(0, len(records) - 1), points).astype(np.intp))
    chosen = records[places[: len(records)]]
    values = chosen["values"][:, arrays.index(array)]
    return Histograms(
        arrays,
        array,
        len(records),
        chosen["epoch"],
        chosen["batch"],
        values["low"],
        values["high"],
        values["nonfinite"],
        values["counts"],
    )
