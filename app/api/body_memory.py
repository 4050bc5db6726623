"""Request bodies in memory: their total is limited, however slowly each of them arrives."""

from __future__ import annotations

from fastapi import Request

from app.errors.tree import Unavailable

__all__ = ["BodyMemory"]

_BYTES_OF_CHUNK = 64
"""Overhead of a chunk beside its bytes, which dominates for a body in tiny chunks."""
_TAKEN = "body_bytes_taken"


class BodyMemory:
    """Counts the bytes of the bodies of all requests under way.

    Args:
        limit: maximum number of bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0

    def take(self, request: Request, count: int) -> None:
        """Count a chunk until the end of its request; raise Unavailable if the total exceeds the
        limit.
        """
        count += _BYTES_OF_CHUNK
        if self._taken + count > self._limit:
            raise Unavailable(
                f"bodies of {self._taken:,} bytes are under way, the limit is {self._limit:,}; try "
                "again later, or raise MODSERVE_MAX_BODIES_BYTES"
            )
        self._taken += count
        state = request.scope["state"]
        if _TAKEN not in state:
            state[_TAKEN] = 0
            state.setdefault("at_end", []).append(lambda: self._give_back(state[_TAKEN]))
        state[_TAKEN] += count

    def _give_back(self, count: int) -> None:
        self._taken -= count
