"""Limits of a process that reads hostile bodies, and where it finds the server's code."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import app
from app.link.memory_pressure import be_ended_first

__all__ = ["environment", "limit_memory"]

_OOM_SCORE = 800
"""More than that of executors, since nothing but one request is lost."""


def limit_memory(size: int) -> None:
    """Limit this process to this much memory beyond that of the interpreter and libraries.

    If the machine's memory runs out before, the kernel ends this process first.
    """
    be_ended_first(_OOM_SCORE)
    # The limit is one of address space, because Linux enforces none of resident memory.
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + size, taken + size))
    resource.setrlimit(
        resource.RLIMIT_CORE, (0, 0)
    )  # else a crash would write a file with the body


def environment() -> dict[str, str]:
    """Return the environment of such a process."""
    root = str(Path(app.__file__).resolve().parent.parent)
    inherited = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        # Each of NumPy's BLAS threads would reserve address space, and nothing here uses them.
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": f"{root}{os.pathsep}{inherited}" if inherited else root,
    }
