"""The classification extension: the top classes of an output instead of its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from app.errors.tree import Invalid

__all__ = ["classified"]

_MOST_STRINGS = 1 << 18
"""Most strings in one output: each has to be created separately."""


def classified(
    name: str, scores: npt.NDArray[Any], count: int, labels: Sequence[str] = ()
) -> tuple[tuple[int, ...], list[str]]:
    """Return the shape and elements of the top classes of each row.

    An element is ``score:index``, followed by ``:label`` if the class has one.

    Ties are ordered by index, and NaN comes last.
    """
    rows = scores.reshape(scores.shape[0] if scores.ndim else 1, math.prod(scores.shape[1:]))
    count = min(count, rows.shape[1])
    if len(rows) * count > _MOST_STRINGS:
        most = f"at most {_MOST_STRINGS:,} in all, of {len(rows):,} rows"
        raise Invalid(f"outputs.{name}.parameters.classification", count, most)
    # An ascending stable sort of these keys sorts the scores in descending order, and keeps ties in
    # theirs. ~x is -1 - x, and for unsigned integers their maximum - x: unlike -x it never
    # overflows.
    keys = -rows.astype(np.float64) if rows.dtype.kind not in "biu" else ~rows
    indices = np.argsort(keys, axis=1, kind="stable")[:, :count]
    best = np.take_along_axis(rows, indices, 1)
    form = "%d:%d" if rows.dtype.kind in "biu" else "%f:%d"  # as Triton writes them
    ends = [f":{label}" for label in labels] + [""] * (rows.shape[1] - len(labels))
    pairs = zip(best.ravel().tolist(), indices.ravel().tolist(), strict=True)
    return (len(rows), count), [form % pair + ends[pair[1]] for pair in pairs]
