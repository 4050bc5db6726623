"""The number of processors this process may use, by its affinity, cpusets and cgroup quotas."""

from __future__ import annotations

import os
from pathlib import Path

from .cgroups import PROC, cgroup_folders, lines_of

__all__ = ["available_cpus"]


def available_cpus(proc: Path = PROC) -> int:
    """Return the number, at least 1; fractional quotas are rounded down.

    More threads would spend the cgroup's quota on waiting for each other, and then be throttled for
    the rest of each period.

    Args:
        proc: folder from which the process's ``cgroup`` and ``mountinfo`` are read.
    """
    quotas = (_quota(folder) for _, folder in cgroup_folders("cpu", proc))
    return max(1, int(min([_affinity(), *(quota for quota in quotas if quota is not None)])))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # systems other than Linux


def _quota(folder: Path) -> float | None:
    """Return the quota of a cgroup of either version, in processors; None if it has none."""
    text = lines_of(folder / "cpu.max")
    if text:
        # "quota period" in microseconds; the kernel's default for a missing period is 100 ms.
        quota, period = (*text[0].split(), "100000")[:2]
    else:
        version_1 = lines_of(folder / "cpu.cfs_quota_us") + lines_of(folder / "cpu.cfs_period_us")
        quota, period = version_1 if len(version_1) == 2 else ("max", "1")
    if not quota.isdecimal() or not period.isdecimal() or int(period) == 0:
        return None  # "max", or -1 in version 1
    return int(quota) / int(period)
