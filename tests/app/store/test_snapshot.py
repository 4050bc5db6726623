"""A copy of a database is complete wherever the database lies."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from app.errors.tree import StartError
from app.settings import Settings
from app.store.snapshot import check_database, continue_ids, forget_missing, snapshot
from app.store.store import Store, database_file


@pytest.mark.parametrize("folder", ["plain", "a b", "a#b", "a?b", "a%41b", "ü"])
def test_a_folder_of_any_name_can_hold_a_database_and_its_copy(tmp_path: Path, folder: str) -> None:
    data_dir = tmp_path / folder
    data_dir.mkdir()
    url = Settings(data_dir=data_dir).store_url
    assert database_file(url) == data_dir / "modserve.db"
    store = Store(url)
    store.open()
    try:
        copy = data_dir / "copy.db"
        assert snapshot(url, copy)
    finally:
        store.close()
    forget_missing(copy, [], [])
    continue_ids(copy, time.time())
    check_database(copy)
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT count(*) FROM modules").fetchone() == (0,)
    assert [path.name for path in tmp_path.iterdir()] == [folder]


def test_a_database_that_is_missing_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="cannot be copied"):
        snapshot(f"sqlite:///{tmp_path / 'modserve.db'}", tmp_path / "copy.db")
    assert not (tmp_path / "modserve.db").exists()
