"""Datatypes under the protocol's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from app.errors.tree import Invalid

__all__ = ["BINARY_ONLY", "BYTES", "datatype_of", "dtype_of"]

_DTYPES: Mapping[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
BINARY_ONLY = _DTYPES["BF16"]
"""Types that JSON numbers cannot express, according to the protocol."""
BYTES = np.dtype(np.object_)
"""Datatype of elements of any length: texts and image files."""
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def dtype_of(datatype: object, field: str) -> np.dtype[Any]:
    """Return the dtype of a datatype; raise Invalid if it is unknown."""
    if datatype == "BYTES":
        return BYTES
    found = _DTYPES.get(datatype) if isinstance(datatype, str) else None
    if found is None:
        raise Invalid(field, datatype, f"one of {', '.join(_DTYPES)}, BYTES")
    return found


def datatype_of(dtype: np.dtype[Any]) -> str:
    """Return the protocol's name for a dtype."""
    return _NAMES[dtype]
