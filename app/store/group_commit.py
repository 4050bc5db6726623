"""Group commit: many writers share one SQLite transaction.

SQLite allows one writer at a time and syncs the disk at every commit. Writers that arrive while
another writes take turns within savepoints of the same open transaction. The writer that finishes
with nobody waiting behind it commits for all of them; no writer returns before its changes are on
disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, NestedTransaction
from sqlalchemy.exc import OperationalError, SQLAlchemyError

__all__ = ["GroupCommit"]

_MOST_WRITERS = 64
_LONGEST_SECONDS = 0.05
"""After so long, or so many, a group commits though others wait: the first writers wait for it."""


class _Group:
    """The writers of one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.transaction = connection.begin()
        self.began = time.monotonic()
        self.writers = 0
        self.error: SQLAlchemyError | None = None
        self.is_over = threading.Event()

    def is_full(self) -> bool:
        too_long = time.monotonic() - self.began > _LONGEST_SECONDS
        return too_long or self.writers >= _MOST_WRITERS

    def is_lost(self) -> bool:
        """Return whether SQLite itself rolled the transaction back, as it does on a full disk."""
        driver = self.connection.connection.driver_connection
        return not getattr(driver, "in_transaction", False)

    def end(self) -> None:
        """Commit what the writers wrote, or roll it back after an error.

        Raises:
            Exception: an error that did not come from the database; the other writers get an
                OperationalError instead.
        """
        try:
            if self.error is None:
                self.transaction.commit()
        except BaseException as error:
            self.fail("COMMIT", error)
            if not isinstance(error, SQLAlchemyError):
                raise
        finally:
            self._release()

    def fail(self, statement: str, error: BaseException) -> None:
        """Fail every writer of the group with the database's error."""
        if not isinstance(error, SQLAlchemyError):
            error = OperationalError(statement, None, Exception("the transaction was lost"))
        self.error = error

    def _release(self) -> None:
        try:
            if self.error is not None:
                self.connection.invalidate()  # its transaction may be in any state
            self.connection.close()
        finally:
            self.is_over.set()


class GroupCommit:
    """Group commit for an SQLite database, within one process. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._turn = threading.Lock()
        self._counting = threading.Lock()
        self._waiting = 0
        self._group: _Group | None = None
        self._writer: int | None = None

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a connection; when the block ends its changes are durable, or none were made.

        Raises:
            SQLAlchemyError: the database refused a write, or the shared commit failed.
            RuntimeError: this thread is already in a ``write`` block.
        """
        if self._writer == threading.get_ident():
            raise RuntimeError("this thread is already in a write transaction")
        self._wait_for_turn()
        try:
            group = self._join()
            savepoint = group.connection.begin_nested()
            try:
                yield group.connection
                savepoint.commit()
            except BaseException as error:
                self._undo(group, savepoint, error)
                raise
            group.writers += 1
        finally:
            self._end_turn()
        # Not in the turn: others join the group while this one waits for its commit.
        group.is_over.wait()
        if group.error is not None:
            raise group.error

    def _wait_for_turn(self) -> None:
        with self._counting:
            self._waiting += 1
        self._turn.acquire()
        with self._counting:
            self._waiting -= 1
        self._writer = threading.get_ident()

    def _join(self) -> _Group:
        if self._group is None:
            connection = self._engine.connect().execution_options(writes=True)
            try:
                self._group = _Group(connection)
            except BaseException:
                connection.close()
                raise
        return self._group

    def _undo(self, group: _Group, savepoint: NestedTransaction, error: BaseException) -> None:
        """Roll back one writer's changes; if that is impossible, fail the whole group."""
        try:
            if not group.is_lost():
                savepoint.rollback()
                return
        except BaseException as second:
            error = second
        group.fail("ROLLBACK", error)

    def _end_turn(self) -> None:
        """Commit if nobody is waiting to join the group, then let the next writer start."""
        group = self._group
        try:
            if group is not None:
                with self._counting:
                    is_last = self._waiting == 0
                if is_last or group.error is not None or group.is_full():
                    self._group = None
                    group.end()
        finally:
            self._writer = None
            self._turn.release()
