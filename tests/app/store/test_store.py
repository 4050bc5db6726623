"""Temporary failures of the database become errors with an HTTP status."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select, text
from sqlalchemy.exc import IntegrityError, OperationalError

from app.errors.database import DiskFailed
from app.errors.tree import DatabaseDamaged, StartError, StorageFull, Unavailable
from app.store.schema import metadata
from app.store.snapshot import check_database
from app.store.store import Store


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_full_disk_is_reported_and_nothing_is_written(store: Store) -> None:
    with store.read() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")  # the pool's only connection
    with pytest.raises(StorageFull), store.write() as connection:
        connection.exec_driver_sql("CREATE TABLE large AS SELECT zeroblob(10000000) AS data")
    with store.read() as connection:
        query = "SELECT COUNT(*) FROM sqlite_master WHERE name = 'large'"
        assert connection.scalar(text(query)) == 0


@pytest.mark.parametrize("kind", ["postgres"])
def test_a_full_disk_of_a_database_server_is_reported(store: Store) -> None:
    fail = "DO $$ BEGIN RAISE 'No space left on device' USING ERRCODE = 'disk_full'; END $$"
    with pytest.raises(StorageFull), store.write() as connection:
        connection.exec_driver_sql(fail)


def test_a_database_locked_by_others_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = Store(f"sqlite:///{path}")
    store.open()
    with store.read() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 1")  # the pool's only connection
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"), store.write():
        pass
    other.close()
    with store.write() as connection:
        connection.exec_driver_sql("CREATE TABLE later (id INTEGER)")
    store.close()


def test_errors_of_our_own_are_raised_unchanged(store: Store) -> None:
    with pytest.raises(IntegrityError), store.write() as connection:
        connection.exec_driver_sql("INSERT INTO counters (name) VALUES (NULL)")


@pytest.mark.parametrize(
    "url", ["", "nonsense", "sqlite:////nowhere/at/all.db", "mysql+nothing://host/name"]
)
def test_an_invalid_database_keeps_the_server_from_starting(url: str) -> None:
    with pytest.raises(StartError):
        Store(url).open()


def test_passwords_are_not_shown() -> None:
    with pytest.raises(StartError) as told:
        Store("sqlite://user:secret@host/nowhere").open()
    assert "secret" not in str(told.value)


def test_corrupt_pages_are_found_by_the_check_and_reported_by_queries(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = Store(f"sqlite:///{path}")
    store.open()
    store.check()
    store.close()
    content = path.read_bytes()
    page = 4096
    # The first pages, with the schema, are kept: the database opens, but its contents are gone.
    path.write_bytes(content[: 4 * page] + b"\xa5" * (len(content) - 4 * page))
    with pytest.raises(StartError, match=r"is damaged .* move .* away and start again"):
        store.check()
    with pytest.raises(StartError, match="is damaged"):
        read_all(store)
    store.close()


def read_all(store: Store) -> None:
    with store.read() as connection:
        for table in metadata.sorted_tables:
            connection.execute(select(table)).all()


class DiskOfErrors:
    """Makes every statement fail the way SQLite reports an error of the disk."""

    def __init__(self, store: Store) -> None:
        self._engine = store._engine

    def __enter__(self) -> None:
        event.listen(self._engine, "before_cursor_execute", self._fail)

    def __exit__(self, *_: object) -> None:
        event.remove(self._engine, "before_cursor_execute", self._fail)

    def _fail(self, connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        found = sqlite3.OperationalError("disk I/O error")
        found.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ
        raise OperationalError(statement, parameters, found)


def test_an_error_of_the_disk_is_called_that_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.db"
    store = Store(f"sqlite:///{path}")
    store.open()
    for _ in range(2):
        with DiskOfErrors(store), caplog.at_level(logging.ERROR):
            for _ in range(3):
                with pytest.raises(DiskFailed, match="cannot be read or written") as told:
                    read_all(store)
            assert isinstance(told.value, StartError)
            assert "move" not in str(told.value), "it may be whole"
            assert str(path) in str(told.value)
        read_all(store)
    assert [one.message.count("disk I/O error") for one in caplog.records] == [1, 1]
    with DiskOfErrors(store), pytest.raises(DiskFailed):
        store.open()
    store.close()


def test_a_page_that_cannot_be_read_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(f"sqlite:///{tmp_path / 'store.db'}")
    store.open()
    path = tmp_path / "unreadable"
    path.symlink_to("/proc/self/mem")  # whose first page gives EIO
    with pytest.raises(DiskFailed, match="cannot be read or written"):
        check_database(path)
    found = "Tree 2 page 2: unable to get the page. error code=266"
    with monkeypatch.context() as patch:
        patch.setattr("app.store.store.database_file", lambda url: path)
        assert isinstance(store._distinguished(found), DiskFailed)
    assert isinstance(store._distinguished(found), DatabaseDamaged)
    store.close()
