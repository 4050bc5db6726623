"""Default context, dtype and tolerances of tests."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..device import Context, current_context
from ..device import set_default_context as set_default_context
from ..types import DType

__all__ = [
    "default_atols",
    "default_context",
    "default_dtype",
    "default_numeric_eps",
    "default_rtols",
    "effective_dtype",
    "get_atol",
    "get_etol",
    "get_rtol",
    "get_tolerance",
    "get_tols",
    "set_default_context",
]

Tolerance = float | Mapping[DType, float] | None
"""A tolerance, or tolerances by dtype; None, or a dtype not listed, means the default."""

_FLOAT64 = np.dtype(np.float64)
_EXACT = dict.fromkeys(["bool", "int8", "uint8", "int32", "uint32", "int64", "uint64"], 0.0)


def default_context() -> Context:
    """Return the context of tests: the current one."""
    return current_context()


def default_dtype() -> type[np.float32]:
    """Return the dtype of test data."""
    return np.float32


def default_rtols() -> dict[DType, float]:
    """Return the relative tolerance of each dtype."""
    return _by_dtype(1e-2, 1e-4, 1e-5)


def default_atols() -> dict[DType, float]:
    """Return the absolute tolerance of each dtype."""
    return _by_dtype(1e-1, 1e-3, 1e-20)


def default_numeric_eps() -> dict[DType, float]:
    """Return the step of finite differences of each floating dtype, a power of two."""
    return {np.dtype(name): 2.0**-k for name, k in (("f2", 6), ("f4", 9), ("f8", 14))}


def effective_dtype(dat: Any) -> DType:
    """Return the dtype that determines the tolerance for an array."""
    dtype: DType = np.dtype(dat.dtype)
    return dtype


def get_tolerance(dat: Any, tol: Tolerance, default_tol: Mapping[DType, float]) -> float:
    """Return the tolerance for an array: the given one or else its dtype's."""
    if isinstance(tol, numbers.Real):
        return float(tol)
    dtype = effective_dtype(dat)
    given: Any = tol or {}
    return float(given[dtype] if dtype in given else default_tol[dtype])


def get_tols(x: Any, y: Any, rtol: Tolerance, atol: Tolerance) -> tuple[float, float]:
    """Return the tolerances to compare two arrays: the larger ones of their dtypes."""
    pair = [one if hasattr(one, "dtype") else np.asarray(one) for one in (x, y)]
    return (
        max(get_tolerance(one, rtol, default_rtols()) for one in pair),
        max(get_tolerance(one, atol, default_atols()) for one in pair),
    )


def get_atol(atol: float | None = None, dtype: DType = _FLOAT64) -> float:
    """Return ``atol``, or the dtype's absolute tolerance if it is None."""
    return default_atols()[dtype] if atol is None else atol


def get_rtol(rtol: float | None = None, dtype: DType = _FLOAT64) -> float:
    """Return ``rtol``, or the dtype's relative tolerance if it is None."""
    return default_rtols()[dtype] if rtol is None else rtol


def get_etol(etol: float | None = None) -> float:
    """Return the fraction of elements that may differ: ``etol``, or 0 if it is None."""
    return 0 if etol is None else etol


def _by_dtype(half: float, single: float, double: float) -> dict[DType, float]:
    floats = {"float16": half, "float32": single, "float64": double}
    return {np.dtype(name): bound for name, bound in [*floats.items(), *_EXACT.items()]}
