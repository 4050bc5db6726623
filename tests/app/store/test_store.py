"""What the database cannot do at present comes as errors that are answers."""

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
def test_a_full_disk_is_told_and_nothing_is_written(store: Store) -> None:
    with store.read() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")  # of the pool's only connection
    with pytest.raises(StorageFull), store.write() as connection:
        connection.exec_driver_sql("CREATE TABLE large AS SELECT zeroblob(10000000) AS data")
    with store.read() as connection:
        query = "SELECT COUNT(*) FROM sqlite_master WHERE name = 'large'"
        assert connection.scalar(text(query)) == 0


@pytest.mark.parametrize("kind", ["postgres"])
def test_a_full_disk_of_another_machine_is_told(store: Store) -> None:
    fail = "DO $$ BEGIN RAISE 'No space left on device' USING ERRCODE = 'disk_full'; END $$"
    with pytest.raises(StorageFull), store.write() as connection:
        connection.exec_driver_sql(fail)


def test_a_database_that_others_write_to_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = Store(f"sqlite:///{path}")
    store.open()
    with store.read() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 1")  # of the pool's only connection
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"), store.write():
        pass
    other.close()
    with store.write() as connection:
        connection.exec_driver_sql("CREATE TABLE later (id INTEGER)")
    store.close()


def test_mistakes_of_ours_stay_what_they_are(store: Store) -> None:
    with pytest.raises(IntegrityError), store.write() as connection:
        connection.exec_driver_sql("INSERT INTO counters (name) VALUES (NULL)")


@pytest.mark.parametrize(
    "url", ["", "nonsense", "sqlite:////nowhere/at/all.db", "mysql+nothing://host/name"]
)
def test_a_database_that_is_none_keeps_the_server_from_starting(url: str) -> None:
    with pytest.raises(StartError):
        Store(url).open()


def test_passwords_are_not_told() -> None:
    with pytest.raises(StartError) as told:
        Store("sqlite://user:secret@host/nowhere").open()
    assert "secret" not in str(told.value)


def test_damaged_pages_are_found_by_the_check_and_told_by_what_meets_them(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = Store(f"sqlite:///{path}")
    store.open()
    store.check()
    store.close()
    content = path.read_bytes()
    page = 4096
    # The first page and the schema's: it opens, and what it holds is gone.
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
