"""The limits on memory of this process's control groups: those of a container, of a service."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from core.cgroups import PROC, cgroup_folders, lines_of

__all__ = ["GroupMemory", "group_memories"]

_NO_LIMIT = 2**62
"""From here on a limit is none; version 1 has no other word for it."""


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """The memory of one group.

    Attributes:
        limit: bytes that its processes may take.
        used: bytes that they take, without files' contents, which give way when others need room.
    """

    limit: int
    used: int


@dataclass(frozen=True, slots=True)
class _Names:
    limit: str
    used: str
    cached: tuple[str, ...]
    """Rows of ``memory.stat``, with the groups below."""


_NAMES = {
    1: _Names(
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_active_file", "total_inactive_file"),
    ),
    2: _Names("memory.max", "memory.current", ("active_file", "inactive_file")),
}
"""By the version of the groups."""


def group_memories(proc: Path = PROC) -> list[GroupMemory]:
    """Return the memory of each group that has a limit; none where nothing limits this process.

    Args:
        proc: where the process's ``cgroup`` and ``mountinfo`` are read.
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
