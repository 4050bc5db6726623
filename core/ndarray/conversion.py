"""Values of any kind as NumPy arrays of a wanted dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..types import DType

__all__ = ["host_array"]


def host_array(value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """Return anything array-like as a NumPy array of a dtype.

    As in MXNet, a number the dtype cannot hold wraps around or overflows silently.

    Raises:
        TypeError, ValueError: the value is not array-like.
    """
    with np.errstate(all="ignore"):
        if isinstance(value, (np.ndarray, np.generic, int, float)):
            return np.asarray(value).astype(dtype, copy=False)
        try:
            return np.array(value, dtype=dtype)
        except OverflowError:
            return np.array(value).astype(dtype)
