"""The highest-scoring classes of each row of an output, with their labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["LabelledRows", "best", "labelled"]

LabelledRows: TypeAlias = list[Any]
"""``{"label": ..., "index": ..., "score": ...}`` of the best classes, nested like the axes."""


def best(
    output: npt.NDArray[Any], count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return indices and scores of the largest elements along the last axis, largest first.

    Ties keep their order; NaN comes last. An output with one axis has one class a row.
    """
    scores = np.asarray(output).astype(np.float64)
    if scores.ndim < 2:
        scores = scores.reshape(-1, 1)
    # Negated, because an ascending stable sort keeps ties in order and a reversed one does not.
    order = np.argsort(np.where(np.isnan(scores), np.inf, -scores), axis=-1, kind="stable")
    chosen = order[..., :count].astype(np.int64)
    return chosen, np.take_along_axis(scores, chosen, -1)


def labelled(
    output: npt.NDArray[Any], count: int, labels: Sequence[str] | None = None
) -> LabelledRows:
    """Return the best classes of each row of an output as plain Python values.

    Args:
        output: with the classes along its last axis.
        count: number of classes for each row.
        labels: of the classes; a class without one gets None.
    """
    names = labels or ()
    indices, scores = best(output, count)
    rows: LabelledRows = [
        [
            {"label": names[index] if index < len(names) else None, "index": index, "score": score}
            for index, score in zip(*one, strict=True)
        ]
        for one in zip(
            indices.reshape(-1, indices.shape[-1]).tolist(),
            _plain(scores.reshape(-1, indices.shape[-1])),
            strict=True,
        )
    ]
    for length in indices.shape[-2:0:-1]:
        rows = [rows[at : at + length] for at in range(0, len(rows), length)]
    return rows


def _plain(scores: npt.NDArray[np.float64]) -> list[list[float | None]]:
    """Replace NaN and infinity, which JSON cannot express."""
    if np.isfinite(scores).all():
        found: list[list[float | None]] = scores.tolist()
        return found
    return [[one if np.isfinite(one) else None for one in row] for row in scores.tolist()]
