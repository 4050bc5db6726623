"""Disk space reserved for the database, and released when the disk is full."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from app.errors.tree import StorageFull
from app.store import disk_reserve
from app.store.store import Store
from served.small_disk import fill, mounted_disk


def test_space_is_reserved_released_and_reserved_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_reserve, "_RETRY_SECONDS", 0.0)
    store = Store(f"sqlite:///{tmp_path / 'room.db'}")
    store.open()
    with store.write():
        pass
    kept = tmp_path / "room.db.reserve"
    assert kept.stat().st_blocks * 512 >= 1 << 20, "the file occupies its space on the disk"
    with pytest.raises(StorageFull), store.write():
        raise StorageFull
    assert not kept.exists()
    with store.write():
        pass
    assert kept.exists()
    store.close()


def test_without_space_nothing_is_reserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk_reserve.os, "posix_fallocate", no_room)
    disk_reserve.DiskReserve(tmp_path / "room.reserve").keep()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MiB."""
    with mounted_disk(tmp_path, 8) as disk:
        yield disk


def test_many_changes_can_be_written_on_a_full_disk(small_disk: Path) -> None:
    store = Store(f"sqlite:///{small_disk / 'room.db'}")
    store.open()
    note = text("UPDATE data_directory SET directory = :said")
    with store.write() as connection:
        connection.execute(text("INSERT INTO data_directory VALUES (1, 'a')"))
    fill(small_disk)
    refused = 0
    for number in range(2000):  # each change takes at least a page of SQLite's write-ahead log
        try:
            with store.write() as connection:
                connection.execute(note, {"said": str(number)})
        except StorageFull:
            refused += 1
    assert refused == 1, "only the first change, after which the reserve is released"
    with store.read() as connection:
        assert connection.scalar(text("SELECT directory FROM data_directory")) == "1999"
    store.close()
