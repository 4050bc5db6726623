"""A consistent copy of an SQLite database, taken while others write to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from sqlalchemy import create_engine, delete, select

from app.errors.database import DiskFailed
from app.errors.tree import StartError
from app.store.disk_errors import disk_error, is_disk_error
from app.store.schema import datasets, modules
from app.store.store import Store, database_file, sqlite_url
from app.store.succession import skip_ids

__all__ = ["check_database", "continue_ids", "forget_missing", "snapshot"]

_BUSY_SECONDS = 30


def snapshot(url: str, target: Path) -> bool:
    """Copy the database to a file; return False if it is not a SQLite file.

    Raises:
        StartError: there is no such file, or it is damaged.
    """
    path = database_file(url)
    if path is None:
        return False
    try:
        with (
            closing(_connect(path, "rw")) as source,  # "rwc", the default, would create it
            closing(sqlite3.connect(target)) as copy,
        ):
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a -wal beside it
    except sqlite3.DatabaseError as error:
        if is_disk_error(error):
            raise DiskFailed(path, str(error)) from None
        raise StartError(f"the database {path} cannot be copied: {error}") from None
    check_database(target)
    return True


def forget_missing(path: Path, names: Collection[str], dataset_names: Collection[str]) -> None:
    """Remove modules and datasets from a copy that were deleted after it was made."""
    store = Store(sqlite_url(path))
    try:
        with store.write() as connection:
            for table, kept in ((modules, names), (datasets, dataset_names)):
                present = connection.execute(select(table.c.id, table.c.name)).all()
                gone = [row.id for row in present if row.name not in kept]
                connection.execute(delete(table).where(table.c.id.in_(gone)))
    finally:
        store.close()
    with closing(sqlite3.connect(path)) as copy:
        copy.execute("PRAGMA journal_mode = DELETE")


def continue_ids(path: Path, now: float) -> None:
    """Make a restored copy skip the ids that its database gave out after the copy was made."""
    engine = create_engine(sqlite_url(path))
    with engine.begin() as connection:
        skip_ids(connection, now)
    engine.dispose()


def check_database(path: Path) -> None:
    """Raise StartError if an SQLite file is damaged or cannot be read."""
    try:
        with closing(_connect(path, "ro")) as connection:
            found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        found = str(error)
    if found != "ok":
        if (failure := disk_error(path)) is not None:
            raise DiskFailed(path, str(failure))
        raise StartError(f"{path} is damaged: {found}")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS)
