"""Processes that die, and disks that are full, at a chosen step.

A process dies without dying: what it would do later does not happen.

Every call that changes the disk is a step, and so is every commit. From the chosen one on all of
them raise, those of ``except`` and ``finally`` too, as after ``kill -9``.
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
    """The process is dead."""


class Victim:
    """Counts steps; from one of them on all fail."""

    def __init__(self, last: int) -> None:
        self.steps = 0
        self._last = last

    def is_over(self) -> bool:
        """Count a step; return whether it is past the last one."""
        self.steps += 1
        return self.steps > self._last

    def step(self) -> None:
        """Take a step, unless dead."""
        if self.is_over():
            raise Died


@contextmanager
def dying_at(step: int, store: Store) -> Iterator[Victim]:
    """Let what happens within the block die when this many steps are done; swallow its death.

    The store is dead with it: open another one on the same database to go on.
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
                connection.close()  # like the kernel; what is not committed is lost
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
