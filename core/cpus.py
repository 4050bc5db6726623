"""The number of processors this process may use, by its affinity, cpusets and cgroup quotas."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["available_cpus"]

_PROC = Path("/proc/self")


def available_cpus(proc: Path = _PROC) -> int:
    """Return the number, at least 1; fractional quotas are rounded down.

    More threads would spend the cgroup's quota on waiting for each other, and then be throttled for
    the rest of each period.

    Args:
        proc: folder from which the process's ``cgroup`` and ``mountinfo`` are read.
    """
    return max(1, int(min([_affinity(), *_quotas(proc)])))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # systems other than Linux


def _quotas(proc: Path) -> Iterator[float]:
    """Yield the quotas, in processors, of this process's cgroups and all their ancestors."""
    for top, folder in _cgroups(proc):
        while True:
            quota = _quota(folder)
            if quota is not None:
                yield quota
            if folder == top:
                break
            folder = folder.parent


def _cgroups(proc: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the mount point and folder of the process's cgroup in each hierarchy with the cpu
    controller."""
    paths = _cgroup_paths(proc)
    for line in _lines(proc / "mountinfo"):
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2":
            path = paths.get("")
        elif kind == "cgroup" and "cpu" in options.split(" ")[-1].split(","):
            path = paths.get("cpu")
        else:
            continue
        root, point = before.split(" ")[3:5]
        if path is not None:
            yield Path(point), Path(point) / _below(path, root)


def _cgroup_paths(proc: Path) -> dict[str, str]:
    """Return the process's cgroups by controller for version 1, and under ``""`` for version 2."""
    paths: dict[str, str] = {}
    for line in _lines(proc / "cgroup"):
        _, controllers, path = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(","), path)
    return paths


def _below(path: str, root: str) -> str:
    """Return a cgroup's path below the mounted root; None if it is outside and thus not visible."""
    inside = path == root or path.startswith(root.rstrip("/") + "/")
    return path[len(root.rstrip("/")) :].strip("/") if inside else ""


def _quota(folder: Path) -> float | None:
    """Return the quota of a cgroup of either version; None if it has none."""
    text = _lines(folder / "cpu.max")
    if text:
        quota, period = (*text[0].split(), "100000")[:2]
    else:
        of_version_1 = _lines(folder / "cpu.cfs_quota_us") + _lines(folder / "cpu.cfs_period_us")
        quota, period = of_version_1 if len(of_version_1) == 2 else ("max", "1")
    if not quota.isdecimal() or not period.isdecimal() or int(period) == 0:
        return None  # "max", or -1 in version 1
    return int(quota) / int(period)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
