"""The bulk size of operators (``mx.engine``), which has no effect here.

MXNet passes operators to its threads in bulks, whose size scripts can choose. Here an operator on
arrays has finished when the call returns, and executors plan their steps in advance. The size is
only stored, for scripts that read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["bulk", "set_bulk_size"]

_size = 0


def set_bulk_size(size: int) -> int:
    """Store a size; return the previous one, which is 0 at first, as in MXNet."""
    global _size
    before, _size = _size, int(size)
    return before


@contextmanager
def bulk(size: int) -> Iterator[None]:
    """Store a size within a ``with`` block."""
    before = set_bulk_size(size)
    try:
        yield
    finally:
        set_bulk_size(before)
