"""The array that a job's input is read from, and its examples in the form that the job wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from app.domain.dataset import DatasetRecord
from app.domain.job_params import ArraySource
from app.errors.tree import Invalid
from app.files.array_files import Rows

__all__ = ["check_lengths", "example_shape", "formed", "source_rows"]

Classes: TypeAlias = Mapping[str, Sequence[str]]


def source_rows(
    source: ArraySource, arrays: Mapping[str, Rows], record: DatasetRecord, classes: Classes
) -> Rows:
    """Return the array that a source reads, or its columns side by side.

    Args:
        source: of one input.
        arrays: of the dataset, by name.
        record: the dataset.
        classes: the order in which the job numbers the texts of a column, by its name.
    """
    if source.array is not None:
        return _numbered(source.array, arrays, record, classes)
    columns = [_numbered(name, arrays, record, classes)[:] for name in source.columns]
    return np.stack(columns, axis=1)


def _numbered(
    name: str, arrays: Mapping[str, Rows], record: DatasetRecord, classes: Classes
) -> Rows:
    """Return an array; one of texts with the numbers that the job gives them."""
    texts = next(array.classes for array in record.arrays if array.name == name)
    if not texts or name not in classes:
        return arrays[name]
    places = {text: place for place, text in reversed([*enumerate(classes[name])])}
    return np.array([places[text] for text in texts], np.int64)[arrays[name][:]]


def example_shape(rows: Rows, source: ArraySource, field: str) -> tuple[int, ...]:
    """Return the shape of an example in the form that its source specifies; raise Invalid."""
    one = np.broadcast_to(np.zeros((), np.bool_), (1, *rows.shape[1:]))
    return formed(one, source, field).shape[1:]


def formed(rows: npt.NDArray[Any], source: ArraySource, field: str) -> npt.NDArray[Any]:
    """Return rows with each example in the shape that the source specifies, if possible a view."""
    if source.axes is not None:
        return rows.transpose(0, *(axis + 1 for axis in source.axes))
    if source.shape is None:
        return rows
    try:
        return rows.reshape(len(rows), *source.shape)
    except ValueError:
        got, expected = list(source.shape), f"the elements of an example of shape {rows.shape[1:]}"
        raise Invalid(f"{field}.shape", got, expected) from None


def check_lengths(lengths: Rows, rows: Rows, field: str) -> npt.NDArray[np.intp]:
    """Return the lengths of the examples that are joined in an array; raise Invalid."""
    counts = lengths[:]
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any():
        raise Invalid(f"{field}.lengths", f"{counts.dtype} {counts.shape}", "counts, one a row")
    if int(counts.sum()) != len(rows):
        raise Invalid(
            f"{field}.lengths", f"a sum of {int(counts.sum())}", f"{len(rows)}, as the array has"
        )
    return np.asarray(counts, dtype=np.intp)
