"""Counting elements in bins of equal width."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["bin_counts"]


def bin_counts(
    values: npt.NDArray[np.float64], bins: int, low: float, high: float
) -> npt.NDArray[np.intp]:
    """Return how many elements lie in each of the bins between two ends, both included.

    Unlike ``numpy.histogram``, this works however close together or far apart the ends are. If they
    are equal, all elements are in the first bin.

    Args:
        values: finite, all of them between the ends.
        bins: number of bins.
        low, high: the ends.
    """
    width = high / 2 - low / 2  # halved, so that the range is finite for any ends
    if width == 0:
        return np.bincount(np.zeros(values.size, np.intp), minlength=bins)
    places = ((values / 2 - low / 2) / width * bins).astype(np.intp)
    return np.bincount(np.minimum(places, bins - 1), minlength=bins)
