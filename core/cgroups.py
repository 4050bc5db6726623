"""The control groups that this process is in: a container's, a service's, and those above them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = ["PROC", "cgroup_folders", "lines_of"]

PROC = Path("/proc/self")


def cgroup_folders(controller: str, proc: Path = PROC) -> Iterator[tuple[int, Path]]:
    """Yield version and folder of the process's cgroup, and of all its ancestors.

    Any of them may set a limit. There may be a hierarchy of either version.

    Args:
        controller: what the hierarchy must control; all controllers share one in version 2.
        proc: folder from which the process's ``cgroup`` and ``mountinfo`` are read.
    """
    for version, top, folder in _hierarchies(controller, proc):
        for one in (folder, *folder.parents):
            yield version, one
            if one == top:
                break


def lines_of(path: Path) -> list[str]:
    """Return the lines of a file; none if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _hierarchies(controller: str, proc: Path) -> Iterator[tuple[int, Path, Path]]:
    """Yield version, mount point and the process's folder of each hierarchy."""
    paths = _paths(proc)
    for line in lines_of(proc / "mountinfo"):
        # See proc_pid_mountinfo(5): a separator follows an unknown number of optional fields.
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, point = before.split(" ")[3:5]
        if kind == "cgroup2" and "" in paths:
            yield 2, Path(point), Path(point) / _below(paths[""], root)
        elif kind == "cgroup" and controller in options.split(" ")[-1].split(","):
            yield 1, Path(point), Path(point) / _below(paths.get(controller, root), root)


def _paths(proc: Path) -> dict[str, str]:
    """Return the process's cgroups by controller for version 1, and under ``""`` for version 2."""
    paths: dict[str, str] = {}
    for line in lines_of(proc / "cgroup"):
        _, controllers, path = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(","), path)
    return paths


def _below(path: str, root: str) -> str:
    """Return a cgroup's path below the mounted root, the root's own if it is not visible there.

    Without a cgroup namespace, a container's ``/proc/self/cgroup`` has the path on the host, of
    which the container sees only what is mounted.
    """
    inside = path == root or path.startswith(root.rstrip("/") + "/")
    return path[len(root.rstrip("/")) :].strip("/") if inside else ""
