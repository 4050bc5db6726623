"""Finding parameters that hold NaN or infinity."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from core.ndarray import NDArray

__all__ = ["REMEDY", "nonfinite_name"]

REMEDY = "load a checkpoint, initialize the parameters, or set this one"
"""What an error about such a parameter tells the client to do."""


def nonfinite_name(named: Iterable[tuple[str, NDArray]]) -> str | None:
    """Return the name of the first array that holds NaN or infinity, None if none does."""
    for name, value in named:
        # One pass and no array of booleans: a sum is finite only if every element is.
        with np.errstate(invalid="ignore", over="ignore"):
            total = float(value.asnumpy().sum(dtype=np.float64))
        if not math.isfinite(total):
            return name
    return None
