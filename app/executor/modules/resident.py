"""The memory of this process."""

from __future__ import annotations

import os

__all__ = ["resident_bytes"]

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Return the bytes of memory that this process has, shared memory included."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES
