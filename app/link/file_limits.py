"""How many files a process may have open; connections and slabs of shared memory are some."""

from __future__ import annotations

import resource

__all__ = ["allow_most_files"]


def allow_most_files() -> int:
    """Raise this process's limit to the most it may have; return it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most
