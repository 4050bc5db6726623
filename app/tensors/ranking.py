"""The highest-scoring classes of each row of an output, with their labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson

__all__ = ["LabelledRows", "best", "labelled", "ranked_pieces"]

_SCORES_AT_ONCE = 1 << 16
"""Sorting them takes a few milliseconds, and ten times their memory."""

LabelledRows: TypeAlias = list[Any]
"""``{"label": ..., "index": ..., "score": ...}`` of the best classes, nested like the axes."""


def best(
    output: npt.NDArray[Any], count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return indices and scores of the largest elements along the last axis, largest first.

    Ties keep their order; NaN comes last. An output with one axis has one class a row.
    """
    rows = np.asarray(output)
    if rows.ndim < 2:
        rows = rows.reshape(-1, 1)
    if rows.shape[-1] > _SCORES_AT_ONCE:
        return _best_of_parts(rows, count)
    return _sorted(rows, count)


def _best_of_parts(
    rows: npt.NDArray[Any], count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the best of the best of each part, because sorting takes ten times the memory."""
    indices, scores = [], []
    for begin in range(0, rows.shape[-1], _SCORES_AT_ONCE):
        chosen, found = _sorted(rows[..., begin : begin + _SCORES_AT_ONCE], count)
        indices.append(chosen + begin)
        scores.append(found)
    order, best_scores = _sorted(np.concatenate(scores, -1), count)
    return np.take_along_axis(np.concatenate(indices, -1), order, -1), best_scores


def _sorted(
    rows: npt.NDArray[Any], count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    scores = rows.astype(np.float64)
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


def ranked_pieces(
    output: npt.NDArray[Any], count: int, labels: Sequence[str] | None = None
) -> Iterator[bytes]:
    """Yield the JSON text of ``labelled``, some rows at a time."""
    if output.size <= _SCORES_AT_ONCE or output.ndim == 0:
        yield orjson.dumps(labelled(output, count, labels))
        return
    rows = _SCORES_AT_ONCE // max(1, output.size // len(output))  # 0 if one is too large
    opening = b"["
    for begin in range(0, len(output), max(1, rows)):
        yield opening
        if rows or output.ndim < 3:
            part = output[begin : begin + max(1, rows)]
            yield orjson.dumps(labelled(part, count, labels))[1:-1]
        else:
            yield from ranked_pieces(output[begin], count, labels)
        opening = b","
    yield b"]"


def _plain(scores: npt.NDArray[np.float64]) -> list[list[float | None]]:
    """Replace NaN and infinity, which JSON cannot express."""
    if np.isfinite(scores).all():
        found: list[list[float | None]] = scores.tolist()
        return found
    return [[one if np.isfinite(one) else None for one in row] for row in scores.tolist()]
