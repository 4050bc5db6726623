"""The limits on memory of the control groups that this process is in: a container's, a service's.

Groups of both versions are looked at, and those above them: any of them may have a limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["GroupMemory", "group_memories"]

_PROC = Path("/proc/self")
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


_OF_VERSION_1 = _Names(
    "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file")
)
_OF_VERSION_2 = _Names("memory.max", "memory.current", ("active_file", "inactive_file"))


def group_memories(proc: Path = _PROC) -> list[GroupMemory]:
    """Return the memory of each group that has a limit; none where nothing limits this process.

    Args:
        proc: where the process's ``cgroup`` and ``mountinfo`` are read.
    """
    found = []
    for top, folder, names in _groups(proc):
        for one in (folder, *folder.parents):
            memory = _memory(one, names)
            if memory is not None:
                found.append(memory)
            if one == top:
                break
    return found


def _groups(proc: Path) -> Iterator[tuple[Path, Path, _Names]]:
    """Yield mount point and folder of the process's group in each hierarchy that counts memory."""
    paths = {
        controller: path
        for line in _lines(proc / "cgroup")
        for _, controllers, path in [line.split(":", 2)]
        for controller in controllers.split(",")
    }
    for line in _lines(proc / "mountinfo"):
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, point = before.split(" ")[3:5]
        if kind == "cgroup2" and "" in paths:
            yield Path(point), Path(point) / _below(paths[""], root), _OF_VERSION_2
        elif kind == "cgroup" and "memory" in options.split(" ")[-1].split(","):
            path = paths.get("memory", root)
            yield Path(point), Path(point) / _below(path, root), _OF_VERSION_1


def _below(path: str, root: str) -> str:
    """Return a group's path below what is mounted; what is not below it is not to be seen."""
    inside = path == root or path.startswith(root.rstrip("/") + "/")
    return path[len(root.rstrip("/")) :].strip("/") if inside else ""


def _memory(folder: Path, names: _Names) -> GroupMemory | None:
    limit = _number(_lines(folder / names.limit))
    if limit is None or limit >= _NO_LIMIT:
        return None
    rows = dict(line.split(" ", 1) for line in _lines(folder / "memory.stat") if " " in line)
    cached = sum(_number([rows.get(name, "")]) or 0 for name in names.cached)
    return GroupMemory(limit, max((_number(_lines(folder / names.used)) or 0) - cached, 0))


def _number(lines: list[str]) -> int | None:
    return int(lines[0]) if lines and lines[0].strip().isdecimal() else None  # "max" is none


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
