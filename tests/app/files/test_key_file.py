"""The key file: private to its owner, written atomically, changed by one process at a time."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from app.domain.api_key import ApiKey, KeyScope, digest_of, key_id_of, new_key_text
from app.errors.tree import Damaged
from app.files.key_file import KeyFile


def make(name: str = "k") -> ApiKey:
    text = new_key_text()
    return ApiKey(
        id=key_id_of(text) or "",
        name=name,
        scopes=(KeyScope.READ,),
        sha256=digest_of(text),
        created_at=1.0,
    )


def test_initially_there_are_no_keys(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "none")
    assert file.read() == ()
    assert file.stamp() is None
    assert not (tmp_path / "none").exists()


def test_only_the_owner_can_read_it_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        KeyFile(tmp_path / "new").change(lambda keys: (*keys, make()))
    finally:
        os.umask(before)
    for name in ("keys.json", "keys.lock"):
        assert stat.S_IMODE((tmp_path / "new" / name).stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path / "new")) == ["keys.json", "keys.lock"]


def test_each_change_changes_the_stamp(tmp_path: Path) -> None:
    file = KeyFile(tmp_path)
    stamps = []
    for _ in range(5):
        file.change(lambda keys: keys)
        stamps.append(file.stamp())
    assert len(set(stamps)) == 5


def test_concurrent_changes_are_all_kept(tmp_path: Path) -> None:
    keys = [make(f"k{n}") for n in range(16)]
    threads = [
        threading.Thread(target=KeyFile(tmp_path).change, args=(lambda old, one=key: (*old, one),))
        for key in keys
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(KeyFile(tmp_path).read()) == set(keys)


def test_a_failed_change_changes_nothing(tmp_path: Path) -> None:
    file = KeyFile(tmp_path)
    file.change(lambda keys: (make(),))
    before, stamp = file.read(), file.stamp()
    with pytest.raises(ZeroDivisionError):
        file.change(lambda keys: 1 / 0)  # type: ignore[arg-type,return-value]
    assert (file.read(), file.stamp()) == (before, stamp)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\x00" * 99])
def test_an_altered_file_is_damaged(tmp_path: Path, content: bytes) -> None:
    file = KeyFile(tmp_path)
    file.path.write_bytes(content)
    with pytest.raises(Damaged):
        file.read()
    with pytest.raises(Damaged):
        file.change(lambda keys: keys)
    assert file.path.read_bytes() == content


def test_a_scope_edited_by_hand_is_damage(tmp_path: Path) -> None:
    file = KeyFile(tmp_path)
    file.change(lambda keys: (make(),))
    file.path.write_bytes(file.path.read_bytes().replace(b'"read"', b'"admin"'))
    with pytest.raises(Damaged, match="SHA-256"):
        file.read()
