"""Histograms and one-hot rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..device import Context
from .array import NDArray
from .creation import array

__all__ = ["histogram", "onehot_encode"]


def histogram(
    a: NDArray, bins: int | NDArray = 10, range: tuple[float, float] | None = None
) -> tuple[NDArray, NDArray]:
    """Count how many elements fall into each bin.

    Args:
        a: the elements, of any shape.
        bins: number of bins of equal width, or their edges in ascending order.
        range: ends of the first and the last bin, by default the smallest and largest element.

    Returns:
        counts (int64 where edges or a range are given, else float32), and the edges.
    """
    values = a.asnumpy()
    if isinstance(bins, NDArray):
        counts, _ = np.histogram(values, bins=bins.asnumpy())
        return _place(counts, a.context, "int64"), bins
    if not isinstance(bins, (int, np.integer)):
        raise ValueError(f"bins is a {type(bins).__name__}; expected an integer or an NDArray")
    counts, edges = np.histogram(values, bins=bins, range=range)
    kind = "float32" if range is None else "int64"
    return _place(counts, a.context, kind), _place(edges, a.context, "float32")


def onehot_encode(indices: NDArray, out: NDArray) -> NDArray:
    """Write rows of zeros with a one at ``indices[i]`` into ``out``, shape (n, classes)."""
    out[:] = 0
    out[np.arange(indices.shape[0]), indices] = 1
    return out


def _place(values: np.ndarray[Any, Any], context: Context, dtype: str) -> NDArray:
    return array(values, context, dtype)
