"""Whether a request was answered as one before it with the same Idempotency-Key, doing nothing."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["Replay", "begin_replay", "current_replay"]


@dataclass(slots=True)
class Replay:
    """What is known of one request; whoever does what it asks for notes it here."""

    is_replayed: bool = False


_current: ContextVar[Replay | None] = ContextVar("replay", default=None)


def begin_replay() -> Replay:
    """Return what this request's work, in threads too, finds as the current one."""
    replay = Replay()
    _current.set(replay)
    return replay


def current_replay() -> Replay:
    """Return that of the request that is worked for; one that nobody looks at outside of any."""
    return _current.get() or Replay()
