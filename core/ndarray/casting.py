"""Conversion from one storage type to another."""

from __future__ import annotations

from typing import cast

import numpy as np

from ..backends import backend_of
from ..errors import UsageError
from .handle import STORAGE_CLASSES, A, Handle

__all__ = ["cast_storage"]


def cast_storage(array: Handle[A], stype: str) -> A:
    """Return a copy of the array in another storage type.

    Raises:
        ValueError: unknown type, csr of an array that is not a matrix, one sparse type to another.
    """
    if stype not in STORAGE_CLASSES:
        raise UsageError(f"storage type is {stype!r}; expected one of {', '.join(STORAGE_CLASSES)}")
    if stype == "csr" and len(array.shape) != 2:
        raise ValueError(f"a csr array is a matrix; the array has shape {array.shape}")
    if stype == array.stype:
        return cast(A, array.copyto(array.context))
    if stype == "default":
        raw = backend_of(array.context).empty(array.shape, np.dtype(array.dtype))
        return cast(A, array.copyto(array.wrap(raw)))
    if array.stype != "default":
        raise ValueError(f"cast_storage from {array.stype} to {stype} is not supported")
    empty = STORAGE_CLASSES[stype].zeros(array.shape, array.context, np.dtype(array.dtype))
    return cast(A, array.copyto(empty))
