"""The limit on open files, which include connections and slabs of shared memory."""

from __future__ import annotations

import resource

__all__ = ["allow_most_files"]


def allow_most_files() -> int:
    """Raise this process's soft limit to its hard limit, and return it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most
