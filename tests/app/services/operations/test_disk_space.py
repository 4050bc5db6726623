"""Warnings of a disk that is full, or nearly so."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.errors.tree import StorageFull
from app.services.operations.disk_space import DiskSpace
from app.store.store import Store
from served.small_disk import fill, mounted_disk

MEBIBYTE = 1 << 20


def test_a_full_disk_is_named_until_it_has_room(bench: Any, tmp_path: Path) -> None:
    with mounted_disk(tmp_path, 32) as disk:
        space = DiskSpace(bench.store, [bench.data_dir, disk])
        before = space.warnings()
        filler = fill(disk)
        (warning,) = [one for one in space.warnings() if one not in before]
        assert f"the disk of {disk} has 0 of 32 MiB left" in warning
        assert "delete datasets" in warning
        filler.unlink()
        assert space.warnings() == before


@pytest.mark.parametrize(
    ("left", "size", "warns"),
    [
        (99, 1 << 20, True),
        (101, 1 << 20, False),
        (9, 1000, True),
        (11, 1000, False),
        (1, 32, True),
        (3, 32, False),
    ],
)
def test_a_hundredth_or_a_hundred_mebibytes_are_little(
    bench: Any, monkeypatch: pytest.MonkeyPatch, left: int, size: int, warns: bool
) -> None:
    free = SimpleNamespace(
        f_bavail=left, f_blocks=size, f_frsize=MEBIBYTE, f_files=100, f_favail=50
    )
    monkeypatch.setattr(os, "statvfs", lambda folder: free)
    found = DiskSpace(bench.store, [bench.data_dir]).warnings()
    assert bool(found) is warns
    free.f_bavail, free.f_favail = size, 0
    (warning,) = DiskSpace(bench.store, [bench.data_dir]).warnings()
    assert "no more files" in warning


def test_a_refused_write_is_told_although_space_seems_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    free = SimpleNamespace(
        f_bavail=1 << 20, f_blocks=1 << 20, f_frsize=MEBIBYTE, f_files=0, f_favail=0
    )
    monkeypatch.setattr(os, "statvfs", lambda folder: free)
    store = Store(f"sqlite:///{tmp_path / 'store.db'}")
    store.open()
    space = DiskSpace(store, [tmp_path])
    assert space.warnings() == []
    with store.read() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")  # the pool's only connection
    with pytest.raises(StorageFull), store.write() as connection:
        connection.exec_driver_sql("CREATE TABLE large AS SELECT zeroblob(10000000) AS data")
    (warning,) = space.warnings()
    assert "refused a write as full" in warning
    store.close()
