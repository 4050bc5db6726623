"""Which process the kernel ends when memory runs out."""

from __future__ import annotations

import contextlib
from pathlib import Path

__all__ = ["be_ended_first"]

_MOST = 1000
_FILE = Path("/proc/self/oom_score_adj")


def be_ended_first(score: int) -> None:
    """Have the kernel end this process before the server, which restarts it and restores its work.

    Args:
        score: added to the share of memory that the process uses, in thousandths.
    """
    with contextlib.suppress(OSError, ValueError):  # some sandboxes have no such file
        adjusted = min(_MOST, int(_FILE.read_text()) + score)
        _FILE.write_text(str(adjusted))
