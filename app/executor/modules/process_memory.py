"""The memory of this process."""

from __future__ import annotations

import ctypes
import os

__all__ = ["private_bytes", "resident_bytes", "retain_little_memory", "return_free_memory"]

_LIBC = ctypes.CDLL(None)
_M_MMAP_THRESHOLD = -3
"""Of glibc's malloc.h."""
_LARGE_BYTES = 4 * 2**20
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes, including shared memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES


def private_bytes() -> int:
    """Return the resident memory of this process that is neither a file nor shared."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(row.split()[1]) * 1024 for row in file if row.startswith("RssAnon:"))


def retain_little_memory() -> None:
    """Have the C library return large arrays to the system as soon as they are freed.

    By default glibc raises its threshold for that to the size of what was freed last, up to 32 MiB,
    and takes arrays below it from the heaps of threads, whose tops ``malloc_trim`` does not return:
    400 MB were seen after eight modules had been deleted.
    """
    set_option = getattr(_LIBC, "mallopt", None)
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def return_free_memory() -> None:
    """Return freed memory that the C library retains to the system, where that is supported."""
    trim = getattr(_LIBC, "malloc_trim", None)
    if trim is not None:
        trim(0)
