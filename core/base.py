"""Names that scripts import from ``mxnet.base``: the error and aliases of plain types."""

from __future__ import annotations

import numpy as np

from .config import data_home as data_dir
from .errors import MXNetError, NotImplementedForSymbol, NotSupportedForSparseNDArray, UsageError

__all__ = [
    "MXNetError",
    "NDArrayHandle",
    "NotImplementedForSymbol",
    "NotSupportedForSparseNDArray",
    "data_dir",
    "integer_types",
    "mx_real_t",
    "numeric_types",
    "py_str",
    "string_types",
]

integer_types = (int, np.int32, np.int64)
numeric_types = (float, int, np.generic)
string_types = (str,)
mx_real_t = np.float32
"""Default dtype of arrays."""


class NDArrayHandle:
    """MXNet's type of pointers to arrays, for annotations and ``isinstance``: there are none here.

    Raises:
        UsageError: on creation, since no function takes or returns such pointers.
    """

    def __init__(self, *args: object) -> None:
        raise UsageError(
            "NDArrayHandle points to an array of MXNet's C library, which modserve does not "
            "contain; pass the NDArray itself"
        )


def py_str(text: bytes | str) -> str:
    """Decode UTF-8; a str, such as executors pass to monitors, is returned unchanged."""
    return text if isinstance(text, str) else text.decode("utf-8")


def _as_list(obj: object) -> list[object] | tuple[object, ...]:
    """Return lists and tuples unchanged, anything else as a list of one element."""
    return obj if isinstance(obj, (list, tuple)) else [obj]
