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

    A capsule can be taken once; it must be of host memory.
    """
    exporter = dlpack if hasattr(dlpack, "__dlpack__") else _Capsule(dlpack)
    context = Context("cpu", 0)
    return NDArray(backend_of(context).asarray(np.from_dlpack(exporter)), context)


class _Capsule:
    """What ``numpy.from_dlpack`` wants in place of a bare capsule."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU
