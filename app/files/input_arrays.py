"""The array that a job's input is read from, and its examples in the form that the job wants."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from app.domain.job_params import ArraySource
from app.errors import Invalid
from app.files.array_files import Rows

__all__ = ["check_lengths", "example_shape", "formed"]


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
