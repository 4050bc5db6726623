"""What a process that reads hostile bodies may take, and where it finds the server's code."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import app

__all__ = ["environment", "limit_memory"]


def limit_memory(size: int) -> None:
    """Allow this process so much memory beside what the interpreter and the libraries take."""
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + size, taken + size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def environment() -> dict[str, str]:
    """Return the environment of such a process."""
    root = str(Path(app.__file__).resolve().parent.parent)
    inherited = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": f"{root}{os.pathsep}{inherited}" if inherited else root,
    }
