"""The database: connections, transactions, and the settings that make SQLite durable."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app.errors.database import DiskFailed
from app.errors.tree import DatabaseDamaged, StartError, StorageFull, Unavailable
from app.store.clock import StoreClock, open_clock, seconds_since_boot
from app.store.damage import read_json, read_text
from app.store.disk_errors import disk_error, is_disk_error
from app.store.disk_reserve import DiskReserve
from app.store.group_commit import GroupCommit
from app.store.migrations import migrate

__all__ = ["Store", "database_file", "sqlite_url"]

_log = logging.getLogger(__name__)

_BUSY_SECONDS = 30
_DISK_FULL = "53100"  # SQLSTATE of Postgres
_SQLITE_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # a job that was answered with 202 survives a power cut
    "PRAGMA foreign_keys = ON",
    f"PRAGMA busy_timeout = {_BUSY_SECONDS * 1000}",
)


class Store:
    """One database. Thread-safe; a transaction belongs to one thread."""

    def __init__(self, url: str) -> None:
        """Prepare the database of a SQLAlchemy URL; ``open`` connects.

        Args:
            url: ``sqlite:///path`` or ``postgresql+psycopg://...``.
        """
        self._logged = ""
        self.clock = StoreClock(time.time() - seconds_since_boot())  # until ``open``
        self._engine = _make_engine(url)
        is_sqlite = self._engine.dialect.name == "sqlite"
        self._group = GroupCommit(self._engine) if is_sqlite else None
        file = database_file(url) if is_sqlite else None
        self._reserve = (
            None if file is None else DiskReserve(file.with_name(f"{file.name}.reserve"))
        )

    def open(self, *, begins_clock: bool = True) -> None:
        """Connect and bring the schema up to date.

        Args:
            begins_clock: note when the store's clock began, if no server of this boot did so.

        Raises:
            StartError: the database does not exist, or cannot be used.
            Unavailable: it was made by a newer modserve.
        """
        try:
            with self._engine.connect() as connection:
                connection = connection.execution_options(writes=True)
                with connection.begin():
                    migrate(connection)
                    self.clock = open_clock(connection, begins=begins_clock)
        except SQLAlchemyError as error:
            if (failure := self._failure(error)) is not None:
                raise failure from error
            url = self._engine.url.render_as_string(hide_password=True)
            raise StartError(
                f"database {url}: {_cause(error)}; set MODSERVE_DATABASE_URL"
            ) from error

    def check(self) -> None:
        """Raise DatabaseDamaged for a SQLite file with damaged pages.

        Without this check a query might come upon them only weeks later. The whole file is read,
        which takes half a second for 200,000 finished jobs.
        """
        with self.read() as connection:
            if connection.dialect.name == "sqlite":
                found = connection.scalar(text("PRAGMA quick_check(1)"))
                if found != "ok":
                    raise self._distinguished(str(found))

    @property
    def is_full(self) -> bool:
        """True from when the disk of a SQLite database was full until it has room again."""
        return self._reserve is not None and self._reserve.is_given_up

    def _distinguished(self, found: str) -> DatabaseDamaged | DiskFailed:
        """Return the error for what a check found: a page that cannot be read is not damaged."""
        path = database_file(str(self._engine.url))
        error = None if path is None else disk_error(path)
        return DatabaseDamaged(path, found) if error is None else DiskFailed(path, str(error))

    def _failure(self, error: SQLAlchemyError) -> DatabaseDamaged | DiskFailed | None:
        """Return our error for damage and for errors of the disk; None for any other."""
        original = getattr(error, "orig", None)
        code = getattr(original, "sqlite_errorcode", None)
        path, cause = database_file(str(self._engine.url)), _cause(error)
        if code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return DatabaseDamaged(path, cause)
        return DiskFailed(path, cause) if is_disk_error(original) else None

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection that sees one consistent state of the database throughout.

        Raises:
            Unavailable: the database does not respond, or is damaged.
        """
        with self._translated(), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a connection whose changes become durable together when the block ends.

        With SQLite, writers that arrive at the same time share a commit; see ``GroupCommit``.

        Raises:
            Unavailable: the database does not respond, is damaged, or stayed locked by other
                writers.
            StorageFull: its disk is full.
        """
        try:
            with self._translated():
                if self._group is not None:
                    with self._group.write() as connection:
                        yield connection
                else:
                    with self._engine.begin() as connection:
                        yield connection
        except StorageFull:
            if self._reserve is not None:
                self._reserve.give_up()
                self._empty_log()
            raise
        if self._reserve is not None:
            if self._reserve.is_due or self._reserve.is_given_up:
                self._empty_log()
            self._reserve.keep()

    def _empty_log(self) -> None:
        """Copy SQLite's write-ahead log into the database file, as far as that is possible.

        The next writes then reuse the log's space. By default SQLite lets the log grow to 4 MB
        first; on a full disk it would use up the whole reserve within seconds.
        """
        with contextlib.suppress(SQLAlchemyError, sqlite3.Error):
            connection = self._engine.raw_connection()
            try:
                connection.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)").close()
            finally:
                connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate the database's operational errors into ours; any other exception is a bug."""
        try:
            yield
            self._logged = ""
        except (OperationalError, PoolTimeout) as error:
            cause = _cause(error)
            failure = None if isinstance(error, PoolTimeout) else self._failure(error)
            if failure is not None:
                self._log_once(str(failure))
                raise failure from error
            self._log_once(f"the database failed: {cause}")
            state = getattr(getattr(error, "orig", None), "sqlstate", None)
            if "full" in cause or state == _DISK_FULL:
                raise StorageFull from error
            raise Unavailable(f"the server's database does not answer: {cause}") from error
        except DatabaseError as error:
            failure = self._failure(error)
            if failure is None:
                raise
            self._log_once(str(failure))
            raise failure from error

    def _log_once(self, text: str) -> None:
        """Log why the database fails, unless that was the last to be said about it."""
        if text != self._logged:
            self._logged = text
            _log.error("%s", text)


def sqlite_url(path: Path) -> str:
    """Return the URL of an SQLite database, with the path's special characters quoted."""
    return URL.create("sqlite", database=str(path)).render_as_string()


def database_file(url: str) -> Path | None:
    """Return the file of a SQLite database; None for an in-memory or other database."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        return None
    return Path(str(parsed.database))


def _cause(error: SQLAlchemyError) -> str:
    return str(getattr(error, "orig", None) or error).strip()


def _make_engine(url: str) -> Engine:
    options: dict[str, Any] = {
        "json_serializer": lambda value: orjson.dumps(value).decode(),
        "json_deserializer": read_json,
    }
    is_sqlite = url.startswith("sqlite")
    if is_sqlite:
        options["connect_args"] = {"timeout": _BUSY_SECONDS}
    else:
        options["pool_pre_ping"] = True
    try:
        engine = create_engine(url, **options)
    except (ArgumentError, ModuleNotFoundError) as error:
        raise StartError(
            f"the database's URL cannot be used: {str(error).splitlines()[0]}; expected "
            "sqlite:///PATH or postgresql+psycopg://HOST/NAME, which needs "
            "pip install 'modserve[postgres]'"
        ) from None
    if not is_sqlite:
        return engine
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, record: object) -> None:
    # Python's sqlite3 begins transactions implicitly and late; None turns that off, for
    # _begin_sqlite.
    connection.isolation_level = None
    connection.text_factory = read_text
    cursor = connection.cursor()
    for pragma in _SQLITE_PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # Take the write lock at once: a transaction that starts by reading may fail to upgrade later.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
