"""Tracks whether a request replays an earlier one with the same Idempotency-Key."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["Replay", "begin_replay", "current_replay"]


@dataclass(slots=True)
class Replay:
    """Set by the service that handles a request, and read by the route that answers it."""

    is_replayed: bool = False


_current: ContextVar[Replay | None] = ContextVar("replay", default=None)


def begin_replay() -> Replay:
    """Start tracking a request; its tasks and threads see the result as ``current_replay``."""
    replay = Replay()
    _current.set(replay)
    return replay


def current_replay() -> Replay:
    """Return the current request's replay; outside of a request, one that nobody reads."""
    return _current.get() or Replay()
