"""Non-maximum suppression."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from ...types import Array
from .library import library, pointer
from .structures import Boxes, SuppressionLimit

__all__ = ["suppress"]

_FLOAT32 = np.dtype("float32")
_INT64 = np.dtype("int64")


def suppress(
    sides: Sequence[Array],
    classes: Array | None,
    threshold: float,
    includes_threshold: bool,
    most: int,
) -> Array | None:
    """Return which boxes are kept; see ``Backend.suppress``."""
    found = library()
    arrays = [*sides] if classes is None else [*sides, classes]
    dtypes = [one.dtype for one in arrays]
    if found is None or dtypes != [_FLOAT32] * len(sides) + [_INT64] * (len(arrays) - len(sides)):
        return None
    arrays = [np.ascontiguousarray(one) for one in arrays]
    count = len(arrays[0])
    boxes = Boxes(*(pointer(one) for one in arrays))
    scratch = np.empty(found.nms_scratch(count), _FLOAT32)
    stays = np.empty(count, bool)
    limit = ctypes.byref(SuppressionLimit(threshold, includes_threshold))
    found.suppress(count, ctypes.byref(boxes), limit, most, pointer(stays), pointer(scratch))
    return stays
