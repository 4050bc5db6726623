"""Statistics of one array, computed in little extra memory: norm, moments, extremes, histogram."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from app.files.bin_counts import bin_counts

__all__ = ["figures_of", "relative_change", "span_of"]

_CHUNK = 1 << 18

Values = npt.NDArray[Any]
Span = tuple[float, float]


def span_of(values: Values) -> Span | None:
    """Return the least and the largest finite value; None without finite values."""
    low, high = math.inf, -math.inf
    for chunk in _finite_chunks(values):
        if chunk.size:
            low, high = min(low, float(chunk.min())), max(high, float(chunk.max()))
    return None if low > high else (low, high)


def figures_of(values: Values, bins: int, span: Span | None) -> dict[str, Any]:
    """Return the statistics of an array.

    Args:
        values: an array of any numeric dtype.
        bins: of the histogram.
        span: range of the histogram; None for no histogram.

    Returns:
        ``nan`` and ``infinite``: how many elements are not numbers; of the others ``norm``,
        ``mean``, ``std``, ``min``, ``max`` (None if there are none) and ``histogram``.
    """
    own = span_of(values)
    facts: dict[str, Any] = {
        "nan": sum(int(np.isnan(chunk).sum()) for chunk in _chunks(values)),
        "infinite": sum(int(np.isinf(chunk).sum()) for chunk in _chunks(values)),
        "histogram": None if span is None else _histogram(values, bins, span),
    }
    if own is None:
        return facts | dict.fromkeys(("norm", "mean", "std", "min", "max"))
    count = values.size - facts["nan"] - facts["infinite"]
    mean = sum(float(chunk.sum()) for chunk in _finite_chunks(values)) / count
    squares = sum(float(np.dot(chunk, chunk)) for chunk in _finite_chunks(values))
    # In a second pass over the data: the mean of the squares less the square of the mean would lose
    # all digits where the mean is large.
    spread = sum(float(((chunk - mean) ** 2).sum()) for chunk in _finite_chunks(values))
    return facts | {
        "norm": math.sqrt(squares),
        "mean": mean,
        "std": math.sqrt(spread / count),
        "min": own[0],
        "max": own[1],
    }


def relative_change(values: Values, before: Values) -> float | None:
    """Return the norm of the difference divided by the norm before, over the finite elements.

    None if the shapes differ, or all elements before were zero.
    """
    if values.shape != before.shape:
        return None
    moved = total = 0.0
    for new, old in zip(_chunks(values), _chunks(before), strict=True):
        both = np.isfinite(new) & np.isfinite(old)
        difference, old = new[both] - old[both], old[both]
        moved += float(np.dot(difference, difference))
        total += float(np.dot(old, old))
    return math.sqrt(moved / total) if total > 0 else None


def _histogram(values: Values, bins: int, span: Span) -> dict[str, Any]:
    low, high = span
    if low == high:  # as NumPy does
        low, high = low - 0.5, high + 0.5
    counts = np.zeros(bins, np.intp)
    for chunk in _finite_chunks(values):
        counts += bin_counts(chunk, bins, low, high)
    return {"low": low, "high": high, "counts": counts.tolist()}


def _chunks(values: Values) -> Iterator[npt.NDArray[np.float64]]:
    flat = values.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        yield flat[start : start + _CHUNK].astype(np.float64)


def _finite_chunks(values: Values) -> Iterator[npt.NDArray[np.float64]]:
    for chunk in _chunks(values):
        finite = np.isfinite(chunk)
        yield chunk if finite.all() else chunk[finite]
