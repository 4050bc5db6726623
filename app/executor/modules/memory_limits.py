"""How much memory a device has left, so that what cannot fit is refused before it is tried."""

from __future__ import annotations

from pathlib import Path

from app.executor.modules.group_memory import group_memories
from core.backends import backend_of
from core.device import Context

__all__ = ["available_bytes", "default_budget", "total_bytes"]

_VERY_MUCH = 2**63 - 1
_SHARE_OF_MODULES = 0.7
"""Of a device's memory; the rest is for data sets of jobs, requests, and other processes."""


def available_bytes(context: Context) -> int:
    """Return the bytes that can be allocated for a device without others losing theirs."""
    own = backend_of(context).memory()
    if own is not None:
        used, total = own
        return total - used
    return min(_machine_bytes(), _group_bytes())


def default_budget(context: Context, sharers: int = 1) -> int:
    """Return what the modules of a device may take where nobody says.

    Args:
        context: the device.
        sharers: devices that share its memory, this one included.
    """
    return int(total_bytes(context) * _SHARE_OF_MODULES) // sharers


def total_bytes(context: Context) -> int:
    """Return the bytes that a device has in all, or the machine or container for it."""
    own = backend_of(context).memory()
    return own[1] if own is not None else min(_machine_bytes("MemTotal:"), _group_limit())


def _machine_bytes(of: str = "MemAvailable:") -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith(of):
            return int(line.split()[1]) * 1024
    return _VERY_MUCH


def _group_bytes() -> int:
    """Return what the control groups of a container leave; very much where none has a limit."""
    left = [max(group.limit - group.used, 0) for group in group_memories()]
    return min(left, default=_VERY_MUCH)


def _group_limit() -> int:
    """Return the least limit of a container's control groups; very much where none has one."""
    return min((group.limit for group in group_memories()), default=_VERY_MUCH)
