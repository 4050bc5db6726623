"""How much memory of a device is free."""

from __future__ import annotations

from pathlib import Path

from ..backends import Backend
from ..cgroups import PROC, cgroup_folders, lines_of

__all__ = ["free_bytes"]

_MACHINE = Path("/proc/meminfo")
_UNKNOWN = 2**63 - 1

_LIMIT = ("memory.max", "memory.limit_in_bytes")
_USED = ("memory.current", "memory.usage_in_bytes")
"""Files of a cgroup in version 2 and in version 1."""


def free_bytes(backend: Backend, proc: Path = PROC) -> int:
    """Return the bytes that can still be allocated, according to the system.

    Args:
        backend: of the device.
        proc: folder from which the process's ``cgroup`` and ``mountinfo`` are read.
    """
    own = backend.memory()
    if own is not None:
        used, total = own
        return total - used
    # A container's limit may be far below what the machine has; beyond it, the process is killed.
    left = (_left(folder) for _, folder in cgroup_folders("memory", proc))
    return min([_available(), *(nbytes for nbytes in left if nbytes is not None)])


def _available() -> int:
    """Return what the machine has."""
    for line in lines_of(_MACHINE):
        # Not MemFree, which leaves out the page cache that the system would give up.
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return _UNKNOWN


def _left(folder: Path) -> int | None:
    """Return what a cgroup of either version may still allocate; None if it has no limit."""
    limit, used = _number(folder, _LIMIT), _number(folder, _USED)
    if limit is None or used is None:
        return None
    # The usage contains the page cache, of which the system gives up the inactive part.
    counts = dict(line.split(" ", 1) for line in lines_of(folder / "memory.stat"))
    # Version 1 counts apart what the cgroups below this one use, but the usage contains it.
    cached = counts.get("total_inactive_file", counts.get("inactive_file", "0"))
    return max(limit - used + int(cached), 0)


def _number(folder: Path, files: tuple[str, ...]) -> int | None:
    """Return the number in the first of these files that exists; None for "max", or without one."""
    text = next((lines[0] for name in files if (lines := lines_of(folder / name))), "")
    return int(text) if text.isdecimal() else None
