"""One transaction for many writers: SQLite has one writer at a time and waits for the disk at every
commit, so those who come meanwhile share the next commit.

Writers take turns within savepoints of one open transaction. Whoever ends its turn and finds nobody
waiting commits for all; nobody returns before what it wrote is on the disk.
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
        """Return whether the database has rolled all of it back by itself, as for a full disk."""
        driver = self.connection.connection.driver_connection
        return not getattr(driver, "in_transaction", False)

    def end(self) -> None:
        """Commit what the writers did, or roll it back after an error.

        Raises:
            Exception: what is not an error of the database's; the others are told one that is.
        """
        try:
            if self.error is None:
                self.transaction.commit()
        except BaseException as error:
            self.fail("COMMIT", error)
            if not isinstance(error, SQLAlchemyError):
                raise
        finally:
            self._let_go()

    def fail(self, statement: str, error: BaseException) -> None:
        """Fail the whole group with the database's error."""
        if not isinstance(error, SQLAlchemyError):
            error = OperationalError(statement, None, Exception("the transaction was lost"))
        self.error = error

    def _let_go(self) -> None:
        try:
            if self.error is not None:
                self.connection.invalidate()  # whatever state it is in ends with it
            self.connection.close()
        finally:
            self.is_over.set()


class GroupCommit:
    """The writers of an SQLite database within this process. Safe for use by many threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._turn = threading.Lock()
        self._counting = threading.Lock()
        self._waiting = 0
        self._group: _Group | None = None
        self._writer: int | None = None

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Give a connection whose changes are durable when the block has ended, or none of them.

        Raises:
            SQLAlchemyError: the database takes nothing, or the common commit failed.
            RuntimeError: this thread is writing already.
        """
        if self._writer == threading.get_ident():
            raise RuntimeError("a transaction within a transaction of the same thread")
        self._await_turn()
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
        group.is_over.wait()
        if group.error is not None:
            raise group.error

    def _await_turn(self) -> None:
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
        """Roll back what one writer did; where that cannot be, all of the group have failed."""
        try:
            if not group.is_lost():
                savepoint.rollback()
                return
        except BaseException as second:
            error = second
        group.fail("ROLLBACK", error)

    def _end_turn(self) -> None:
        """Commit for all where nobody waits to join, then let the next one write."""
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
