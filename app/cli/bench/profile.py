"""Profile of a case: tables by operator, kernel and layout reorder, and a trace."""

from __future__ import annotations

from pathlib import Path

import core as mx
from app.cli.bench.cases import Case

__all__ = ["profile"]

_STEPS = 10


def profile(case: Case, trace: Path) -> str:
    """Repeat a warmed-up step under the profiler; return its tables.

    Args:
        case: must compute in this process.
        trace: file to write, in Chrome's trace format.
    """
    mx.profiler.set_config(filename=str(trace), aggregate_stats=True, continuous_dump=False)
    mx.profiler.set_state("run")
    try:
        for _ in range(_STEPS):
            case.step()
        tables = mx.profiler.dumps()
    finally:
        mx.profiler.dump()
        mx.profiler.set_config()
    return f"{_STEPS} steps\n{tables}"
