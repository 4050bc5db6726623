"""Temporary failures of the database become errors with an HTTP status."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import IntegrityError

from app.errors import StartError, StorageFull, Unavailable
from app.store.schema import metadata
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
