"""How much memory a device has left, so that calls that cannot fit are refused up front."""

from __future__ import annotations

from pathlib import Path

from app.executor.modules.group_memory import group_memories
from core.backends import backend_of
from core.device import Context

__all__ = ["available_bytes", "default_answers", "default_budget", "total_bytes"]

_VERY_MUCH = 2**63 - 1
_SHARE_OF_MODULES = 0.7
"""Share of a device's memory; the rest is for jobs' datasets, requests and other processes."""

_SHARE_OF_ANSWERS = 0.2
"""Share of the machine's or container's memory; answers of GPUs are in the machine's, too."""

_MOST_ANSWERS = 4 * 2**30


def available_bytes(context: Context) -> int:
    """Return the bytes that can be allocated for a device without taking memory from others."""
    own = backend_of(context).memory()
    if own is not None:
        used, total = own
        return total - used
    return min(_machine_bytes(), _group_bytes())


def default_budget(context: Context, sharers: int = 1) -> int:
    """Return the default memory budget of a device's modules.

    Args:
        context: the device.
        sharers: number of devices that share its memory, this one included.
    """
    return int(total_bytes(context) * _SHARE_OF_MODULES) // sharers


def default_answers(executors: int) -> int:
    """Return the default limit on the answers that an executor has under way.

    Args:
        executors: number of executors on the machine, this one included.
    """
    most = min(_machine_bytes("MemTotal:"), _group_limit())
    return min(int(most * _SHARE_OF_ANSWERS), _MOST_ANSWERS) // executors


def total_bytes(context: Context) -> int:
    """Return the total memory of a device, for a CPU that of the machine or container."""
    own = backend_of(context).memory()
    return own[1] if own is not None else min(_machine_bytes("MemTotal:"), _group_limit())


def _machine_bytes(of: str = "MemAvailable:") -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith(of):
            return int(line.split()[1]) * 1024
    return _VERY_MUCH


def _group_bytes() -> int:
    """Return the bytes that are free under the control groups' limits; a huge number without
    limits."""
    left = [max(group.limit - group.used, 0) for group in group_memories()]
    return min(left, default=_VERY_MUCH)


def _group_limit() -> int:
    """Return the lowest limit of the control groups; a huge number without limits."""
    return min((group.limit for group in group_memories()), default=_VERY_MUCH)
