"""Files that exist completely or not at all, and locks on them."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

import pytest

from app.domain.names import check_name
from app.errors.tree import Invalid
from app.files.durable_files import (
    digest_file,
    discard,
    hidden_sibling,
    is_locked,
    locked,
    rename_durably,
    sync_file,
)


def test_a_rename_is_synced_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    rename, fsync = os.rename, os.fsync

    def note_rename(source: Path, target: Path) -> None:
        calls.append("rename")
        rename(source, target)

    def note_fsync(descriptor: int) -> None:
        calls.append(f"sync {os.readlink(f'/proc/self/fd/{descriptor}')}")
        fsync(descriptor)

    monkeypatch.setattr(os, "rename", note_rename)
    monkeypatch.setattr(os, "fsync", note_fsync)
    part = tmp_path / "part"
    part.write_bytes(b"whole")
    sync_file(part)
    rename_durably(part, tmp_path / "file")
    assert calls == [f"sync {part}", "rename", f"sync {tmp_path}"]
    assert (tmp_path / "file").read_bytes() == b"whole"


def test_clients_cannot_use_the_name_of_a_hidden_sibling(tmp_path: Path) -> None:
    names = {hidden_sibling(tmp_path / "mnist.npz", "upload") for _ in range(5)}
    assert len(names) == 5
    for path in names:
        assert path.parent == tmp_path
        with pytest.raises(Invalid):
            check_name(path.name)


def test_a_directory_is_hidden_before_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "3"
    folder.mkdir()
    (folder / "net.params").write_bytes(b"x")

    def die(path: Path, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.rmtree", die)
    with pytest.raises(KeyboardInterrupt):
        discard(folder)
    (rest,) = tmp_path.iterdir()
    assert rest.name.startswith(".trash-3-")
    monkeypatch.undo()
    discard(rest)
    assert not list(tmp_path.iterdir())


def test_discarding_a_missing_file_is_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    discard(tmp_path / "a")
    discard(tmp_path / "a")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [0, 1, (1 << 20) + 7])
def test_digests(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    (tmp_path / "a").write_bytes(content)
    digest = digest_file(tmp_path / "a")
    assert (digest.size, digest.sha256) == (size, hashlib.sha256(content).hexdigest())


def test_a_held_lock_is_waited_for(tmp_path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with locked(tmp_path):
            order.append("second")

    with locked(tmp_path):
        assert is_locked(tmp_path)
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.05)  # time for the thread to ask for the lock
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert not is_locked(tmp_path)


def test_shared_locks_are_held_together(tmp_path: Path) -> None:
    with locked(tmp_path, shared=True), locked(tmp_path, shared=True):
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)
