"""The old name of an argument of ``mx.image``."""

from __future__ import annotations

import warnings
from typing import Any

from ..errors import UsageError

__all__ = ["renamed_area"]


def renamed_area(area: Any, kwargs: dict[str, Any], caller: str) -> Any:
    """Return ``area``, or the value of its old name ``min_area``; other names are refused."""
    others = sorted(kwargs.keys() - {"min_area"})
    if others:
        raise UsageError(f"unexpected keyword arguments for `{caller}`: {others}")
    if "min_area" not in kwargs:
        return area
    warnings.warn(
        "`min_area` is deprecated. Please use `area` instead.", DeprecationWarning, stacklevel=3
    )
    return kwargs["min_area"]
