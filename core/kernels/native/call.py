"""Calls of C functions that a chain can make without Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

__all__ = ["NativeCall"]


class NativeCall(partial[None]):
    """Calls a C function whose only parameter points to a structure.

    Attributes:
        address: of the function.
        parameters: address of the structure, which the call keeps alive.
    """

    address: int
    parameters: int

    @classmethod
    def of(cls, function: Callable[..., None], parameters: ctypes.Structure) -> NativeCall:
        """Return the call of a function of the C library."""
        made = cls(function, ctypes.byref(parameters))
        found: Any = ctypes.cast(function, ctypes.c_void_p)  # type: ignore[arg-type]
        made.address, made.parameters = found.value, ctypes.addressof(parameters)
        return made
