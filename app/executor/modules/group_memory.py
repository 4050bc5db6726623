"""Memory limits of this process's control groups, as set by containers and service managers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from core.cgroups import PROC, cgroup_folders, lines_of

__all__ = ["GroupMemory", "group_memories"]

_NO_LIMIT = 2**62
"""A limit from here on means no limit; cgroup version 1 has no other notation for that."""


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """The memory of one group.

    Attributes:
        limit: bytes that its processes may use.
        used: bytes in use, without the page cache, which the kernel reclaims on demand.
    """

    limit: int
    used: int


@dataclass(frozen=True, slots=True)
class _Names:
    limit: str
    used: str
    cached: tuple[str, ...]
    """Rows of ``memory.stat`` to subtract, which include the groups below."""


_NAMES = {
    1: _Names(
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_active_file", "total_inactive_file"),
    ),
    2: _Names("memory.max", "memory.current", ("active_file", "inactive_file")),
}
"""By version of cgroups."""


def group_memories(proc: Path = PROC) -> list[GroupMemory]:
    """Return the memory of each group with a limit; empty if nothing limits this process.

    Args:
        proc: directory of the process's ``cgroup`` and ``mountinfo``.
    """
    groups = cgroup_folders("memory", proc)
    memories = (_memory(folder, _NAMES[version]) for version, folder in groups)
    return [memory for memory in memories if memory is not None]


def _memory(folder: Path, names: _Names) -> GroupMemory | None:
    limit = _number(lines_of(folder / names.limit))
    if limit is None or limit >= _NO_LIMIT:
        return None
    rows = dict(line.split(" ", 1) for line in lines_of(folder / "memory.stat") if " " in line)
    cached = sum(_number([rows.get(name, "")]) or 0 for name in names.cached)
    return GroupMemory(limit, max((_number(lines_of(folder / names.used)) or 0) - cached, 0))


def _number(lines: list[str]) -> int | None:
    return int(lines[0]) if lines and lines[0].strip().isdecimal() else None  # "max" is none
