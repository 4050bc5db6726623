"""Room that is kept for the database, and given up when the disk is full."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.errors import StorageFull
from app.store import reserve
from app.store.store import Store


def test_room_is_kept_given_up_and_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserve, "_AGAIN_SECONDS", 0.0)
    store = Store(f"sqlite:///{tmp_path / 'room.db'}")
    store.open()
    with store.write():
        pass
    kept = tmp_path / "room.db.reserve"
    assert kept.stat().st_blocks * 512 >= 1 << 20, "it does take the room"
    with pytest.raises(StorageFull), store.write():
        raise StorageFull
    assert not kept.exists()
    with store.write():
        pass
    assert kept.exists()
    store.close()


def test_where_there_is_no_room_none_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reserve.os, "posix_fallocate", no_room)
    reserve.Reserve(tmp_path / "room.reserve").keep()
    assert list(tmp_path.iterdir()) == []
