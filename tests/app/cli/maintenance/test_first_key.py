"""The key made at the first start: printed once, stored hashed, and never half written."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from app.cli.maintenance import ensure_key
from app.domain.api_key import KeyScope, is_text_of
from app.errors.tree import StartError
from app.files.key_file import KeyFile
from served.keys import add_key

TESTS = Path(__file__).parents[3]
KEY = re.compile(r"msk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")


def test_the_first_start_makes_a_key_and_prints_it_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir = tmp_path / "new"
    ensure_key(data_dir)
    (text,) = KEY.findall(capsys.readouterr().out)
    (key,) = KeyFile(data_dir).read()
    assert is_text_of(key, text)
    assert (key.name, key.scopes, key.expires_at) == ("admin", (KeyScope.ADMIN,), None)
    assert stat.S_IMODE((data_dir / "keys.json").stat().st_mode) == 0o600
    assert not [path for path in data_dir.iterdir() if text in path.read_text()]
    ensure_key(data_dir)
    assert capsys.readouterr().out == ""
    assert KeyFile(data_dir).read() == (key,)


def test_with_existing_keys_none_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_key(tmp_path, "ann", "infer")
    ensure_key(tmp_path)
    assert capsys.readouterr().out == ""
    assert [key.name for key in KeyFile(tmp_path).read()] == ["ann"]


def test_of_servers_starting_together_only_one_makes_the_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    threads = [threading.Thread(target=ensure_key, args=(tmp_path,)) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    (text,) = KEY.findall(capsys.readouterr().out)
    (key,) = KeyFile(tmp_path).read()
    assert is_text_of(key, text)


def test_failure_to_store_the_key_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match=r"file.*must be able to write there"):
        ensure_key(tmp_path / "file" / "data")
    (tmp_path / "keys.json").write_text("?")
    with pytest.raises(StartError, match=r"keys\.json"):
        ensure_key(tmp_path)


class BrokenOutput(io.StringIO):
    """An output nobody reads any more."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def test_a_key_that_cannot_be_printed_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", BrokenOutput())
    with pytest.raises(StartError, match="cannot be printed: Broken pipe"):
        ensure_key(tmp_path)
    assert KeyFile(tmp_path).read() == ()


def test_dying_at_any_write_leaves_a_usable_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every stored key was printed, and the next start has such a key."""
    subprocess.run(
        [sys.executable, "-m", "served.dying_start", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent}"},
        check=True,
    )
    folders = sorted(tmp_path.iterdir(), key=lambda path: int(path.name))
    assert len(folders) > 10, "directory, lock, output, file, rename and their syncs"
    kept = []
    for folder in folders:
        printed = KEY.findall((folder / "printed").read_text())
        before = KeyFile(folder / "data").read()
        kept.append(len(before))
        assert all(any(is_text_of(key, text) for text in printed) for key in before)
        ensure_key(folder / "data")
        printed += KEY.findall(capsys.readouterr().out)
        (key,) = KeyFile(folder / "data").read()
        assert any(is_text_of(key, text) for text in printed)
    assert kept == sorted(kept)
    assert set(kept) == {0, 1}
