"""How many operators run at once (``mx.engine``): one, whatever these functions are told.

MXNet hands operators to other threads in bulks of a size that scripts may choose. Here an operator
called on arrays has run when the call returns, and executors plan their steps ahead; so the size is
remembered, for scripts that ask for it, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["bulk", "set_bulk_size"]

_size = 0


def set_bulk_size(size: int) -> int:
    """Remember a size; return the one before, 0 at first as in MXNet."""
    global _size
    before, _size = _size, int(size)
    return before


@contextmanager
def bulk(size: int) -> Iterator[None]:
    """Remember a size for a ``with`` block."""
    before = set_bulk_size(size)
    try:
        yield
    finally:
        set_bulk_size(before)
