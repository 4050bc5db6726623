"""How much memory a device has left, so that what cannot fit is refused before it is tried."""

from __future__ import annotations

from pathlib import Path

from core.backends import backend_of
from core.device import Context

__all__ = ["available_bytes"]

_CGROUP = Path("/sys/fs/cgroup")


def available_bytes(context: Context) -> int:
    """Return the bytes that can be allocated for a device without others losing theirs."""
    own = backend_of(context).memory()
    if own is not None:
        used, total = own
        return total - used
    return min(_machine_bytes(), _group_bytes())


def _machine_bytes() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 2**63 - 1


def _group_bytes() -> int:
    """Return what the control group of a container leaves; very much where it sets no limit."""
    try:
        limit = (_CGROUP / "memory.max").read_text(encoding="ascii").strip()
        current = int((_CGROUP / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 2**63 - 1
    return 2**63 - 1 if limit == "max" else max(int(limit) - current, 0)
