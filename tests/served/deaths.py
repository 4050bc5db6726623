"""Simulated deaths of this process, and full disks, at a chosen step.

Every call that changes the disk is a step, and so is every commit. From the chosen step on all of
them raise, even in ``except`` and ``finally`` blocks, so that nothing reaches the disk any more, as
after ``kill -9``.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from app.store.store import Store

__all__ = ["Died", "Victim", "dying_at", "full_at"]

_NEED_ROOM = ("link", "mkdir", "fsync")
_STEPS = ("rename", "replace", "link", "unlink", "mkdir", "rmdir", "fsync")


class Died(BaseException):
    """Raised by every step after the simulated death."""


class Victim:
    """Counts steps, of which only the first ``last`` succeed."""

    def __init__(self, last: int) -> None:
        self.steps = 0
        self._last = last

    def is_over(self) -> bool:
        """Count a step; return whether it comes after the last one that succeeds."""
        self.steps += 1
        return self.steps > self._last

    def step(self) -> None:
        """Count a step.

        Raises:
            Died: it comes after the last one that succeeds.
        """
        if self.is_over():
            raise Died


@contextmanager
def dying_at(step: int, store: Store) -> Iterator[Victim]:
    """Simulate a death in the block after this many steps, and leave the block without an error.

    The store is unusable afterwards: open another one on the same database to go on.
    """
    victim = Victim(step)

    def wrap(function: Any) -> Any:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            victim.step()
            return function(*arguments, **options)

        return wrapped

    def before_commit(connection: object) -> None:
        if connection.get_execution_options().get("writes"):  # type: ignore[attr-defined]
            victim.step()

    connections: list[Any] = []

    def note(connection: object, *_: object) -> None:
        connections.append(connection)

    engine = store._engine
    event.listen(engine, "checkout", note)
    with pytest.MonkeyPatch.context() as patch:
        for name in _STEPS:
            patch.setattr(os, name, wrap(getattr(os, name)))
        event.listen(engine, "commit", before_commit)
        try:
            yield victim
        except Died:
            for connection in connections:
                connection.close()  # as the kernel does: what is not committed is lost
        finally:
            event.remove(engine, "commit", before_commit)
            event.remove(engine, "checkout", note)


@contextmanager
def full_at(step: int, store: Store) -> Iterator[Victim]:
    """Make the disk full within the block after this many steps that need space."""
    victim = Victim(step)

    def wrap(function: Any) -> Any:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            if victim.is_over():
                raise OSError(errno.ENOSPC, "No space left on device")
            return function(*arguments, **options)

        return wrapped

    def before_commit(connection: object) -> None:
        writes = connection.get_execution_options().get("writes")  # type: ignore[attr-defined]
        if writes and victim.is_over():
            raise OperationalError("COMMIT", None, Exception("database or disk is full"))

    engine = store._engine
    with pytest.MonkeyPatch.context() as patch:
        for name in _NEED_ROOM:
            patch.setattr(os, name, wrap(getattr(os, name)))
        event.listen(engine, "commit", before_commit)
        try:
            yield victim
        finally:
            event.remove(engine, "commit", before_commit)
