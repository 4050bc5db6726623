"""The database: connections, transactions, and the settings that make SQLite durable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from app.errors import StartError
from app.store.migrations import migrate

__all__ = ["Store"]

_BUSY_SECONDS = 30
_SQLITE_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # a job that was answered with 202 survives a power cut
    "PRAGMA foreign_keys = ON",
    f"PRAGMA busy_timeout = {_BUSY_SECONDS * 1000}",
)


class Store:
    """One database. Safe for use by many threads; a transaction belongs to one."""

    def __init__(self, url: str) -> None:
        """Prepare the database of a SQLAlchemy URL; ``open`` connects.

        Args:
            url: ``sqlite:///path`` or ``postgresql+psycopg://...``.
        """
        self._engine = _make_engine(url)

    def open(self) -> None:
        """Bring the schema up to date.

        Raises:
            StartError: there is no such database, or it cannot be used.
            Unavailable: it was made by a newer modserve.
        """
        try:
            with self.write() as connection:
                migrate(connection)
        except SQLAlchemyError as error:
            url = self._engine.url.render_as_string(hide_password=True)
            cause = getattr(error, "orig", None) or error
            raise StartError(f"database {url}: {cause}; set MODSERVE_DATABASE_URL") from error

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection that sees one state of the database throughout."""
        with self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Give a connection whose changes become durable together when the block ends."""
        with self._engine.connect() as connection:
            connection = connection.execution_options(writes=True)
            with connection.begin():
                yield connection


def _make_engine(url: str) -> Engine:
    options: dict[str, Any] = {
        "json_serializer": lambda value: orjson.dumps(value).decode(),
        "json_deserializer": orjson.loads,
    }
    if not url.startswith("sqlite"):
        try:
            return create_engine(url, pool_pre_ping=True, **options)
        except (ArgumentError, ModuleNotFoundError) as error:
            raise StartError(
                f"the database's URL cannot be used: {error}; expected sqlite:///PATH or "
                "postgresql+psycopg://HOST/NAME, which needs pip install 'modserve[postgres]'"
            ) from None
    engine = create_engine(url, connect_args={"timeout": _BUSY_SECONDS}, **options)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, record: object) -> None:
    # Python's sqlite3 begins transactions late and by itself; None leaves that to _begin_sqlite.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in _SQLITE_PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes its lock at once: one that began by reading could find itself too late to.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
