"""Elements counted in bins of equal width."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["bin_counts"]


def bin_counts(
    values: npt.NDArray[np.float64], bins: int, low: float, high: float
) -> npt.NDArray[np.intp]:
    """Return how many elements lie in each bin between two ends, both included.

    Unlike ``numpy.histogram`` it has no ends that are too close together, or too far apart. Where
    they are equal all is in the first bin.

    Args:
        values: finite, none of them beyond the ends.
        bins: how many there are.
        low, high: the ends.
    """
    width = high / 2 - low / 2  # half of it, which is finite for any ends
    if width == 0:
        return np.bincount(np.zeros(values.size, np.intp), minlength=bins)
    places = ((values / 2 - low / 2) / width * bins).astype(np.intp)
    return np.bincount(np.minimum(places, bins - 1), minlength=bins)
