"""How much memory of a device is free."""

from __future__ import annotations

from pathlib import Path

from ..backends import Backend

__all__ = ["free_bytes"]

_MACHINE = Path("/proc/meminfo")
_UNKNOWN = 2**63 - 1


def free_bytes(backend: Backend) -> int:
    """Return the bytes that can still be allocated, according to the system."""
    own = backend.memory()
    if own is not None:
        used, total = own
        return total - used
    if not _MACHINE.exists():
        return _UNKNOWN
    for line in _MACHINE.read_text(encoding="ascii").splitlines():
        # Not MemFree, which leaves out the page cache that the system would give up.
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return _UNKNOWN
