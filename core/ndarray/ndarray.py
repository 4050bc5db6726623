"""Arrays under the path that scripts import them by (``mxnet.ndarray.ndarray``)."""

from __future__ import annotations

from ..types import DTYPE_NAMES, to_dtype
from .array import NDArray
from .binary import (
    add,
    divide,
    equal,
    greater,
    greater_equal,
    lesser,
    lesser_equal,
    logical_and,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    modulo,
    multiply,
    not_equal,
    power,
    subtract,
    true_divide,
)
from .counting import histogram, onehot_encode
from .creation import (
    arange,
    array,
    concatenate,
    empty,
    eye,
    from_numpy,
    full,
    linspace,
    moveaxis,
    ones,
    split_v2,
    zeros,
)
from .dlpack import from_dlpack, to_dlpack_for_read, to_dlpack_for_write

__all__ = [
    "NDArray",
    "add",
    "arange",
    "array",
    "concatenate",
    "divide",
    "empty",
    "equal",
    "eye",
    "from_dlpack",
    "from_numpy",
    "full",
    "greater",
    "greater_equal",
    "histogram",
    "lesser",
    "lesser_equal",
    "linspace",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "modulo",
    "moveaxis",
    "multiply",
    "not_equal",
    "onehot_encode",
    "ones",
    "power",
    "split_v2",
    "subtract",
    "to_dlpack_for_read",
    "to_dlpack_for_write",
    "true_divide",
    "zeros",
]

py_slice = slice
"""Python's own, where ``mx.nd.slice`` is the operator."""

_STORAGE_TYPE_STR_TO_ID = {"undefined": -1, "default": 0, "row_sparse": 1, "csr": 2}
"""Storage types as the ``__storage_type__`` attribute of variables numbers them."""

_DTYPE_MX_TO_NP = {-1: None} | {code: to_dtype(code).type for code in range(len(DTYPE_NAMES))}
"""Types by the code that the ``__dtype__`` attribute of variables and files give them."""

_DTYPE_NP_TO_MX = {kind: code for code, kind in _DTYPE_MX_TO_NP.items()}
"""Codes by type."""
