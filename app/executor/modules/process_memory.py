"""The memory of this process."""

from __future__ import annotations

import ctypes
import os

__all__ = ["resident_bytes", "return_free_memory"]

_LIBC = ctypes.CDLL(None)
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes, including shared memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES


def return_free_memory() -> None:
    """Return freed memory that the C library retains to the system, where that is supported."""
    trim = getattr(_LIBC, "malloc_trim", None)
    if trim is not None:
        trim(0)
