"""Loading and starting without looking for garbage: nearly all that is made then stays.

``core.garbage`` has the same; but to import it loads the engine, without which servers start.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_paused"]


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's garbage collector for a block; it took a fifth of the server's start."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
