"""Sharing arrays with other libraries through DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends import backend_of
from ..device import Context
from .array import NDArray

__all__ = ["from_dlpack", "to_dlpack_for_read", "to_dlpack_for_write"]


def to_dlpack_for_read(data: NDArray) -> Any:
    """Return a DLPack capsule of the array's memory; its values are computed before."""
    return data.to_dlpack_for_read()


def to_dlpack_for_write(data: NDArray) -> Any:
    """Return a DLPack capsule whose holder may write to the array at any time."""
    return data.to_dlpack_for_write()


def from_dlpack(dlpack: Any) -> NDArray:
    """Return an array that shares the memory of a capsule, or of anything with ``__dlpack__``.

    A capsule can be taken once; it must be of host memory. The array may be written to, unless its
    owner says that the memory is read-only.
    """
    context = Context("cpu", 0)
    return NDArray(backend_of(context).asarray(_shared(dlpack)), context)


def _shared(dlpack: Any) -> np.ndarray[Any, Any]:
    if hasattr(dlpack, "__dlpack__"):
        try:
            capsule = dlpack.__dlpack__()
        except BufferError:  # a capsule of this kind cannot say that its memory is read-only
            return np.from_dlpack(dlpack)
        if dlpack.__dlpack_device__()[0] != _CPU:
            return np.from_dlpack(dlpack)
        dlpack = capsule
    array: np.ndarray[Any, Any] = np.asarray(_Writable(np.from_dlpack(_Capsule(dlpack))))
    return array


_CPU = 1
"""DLPack's kDLCPU."""


class _Capsule:
    """What ``numpy.from_dlpack`` wants in place of a bare capsule."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CPU, 0)


class _Writable:
    """Memory that NumPy takes for read-only, as it does that of every capsule without a flag."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array  # keeps the memory alive
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}
