"""``mx.gluon.utils.download``: what is fetched, and what is kept."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import core as mx

FIRST = hashlib.sha1(b"first").hexdigest()


def test_a_file_is_downloaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source.txt"
    source.write_text("first")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    url = source.as_uri()
    assert mx.gluon.utils.download(url) == "source.txt"
    path = mx.gluon.utils.download(url, path="new/named.txt", sha1_hash=FIRST)
    assert Path(path) == Path("new", "named.txt")
    source.write_text("second")
    assert mx.gluon.utils.download(url, "new") == str(Path("new", "source.txt"))
    assert Path("new", "source.txt").read_text() == "second"
    assert Path(mx.gluon.utils.download(url)).read_text() == "first"
    assert Path(mx.gluon.utils.download(url, overwrite=True)).read_text() == "second"
    assert sorted(one.name for one in Path("new").iterdir()) == ["named.txt", "source.txt"]


def test_a_file_with_another_hash_is_replaced(tmp_path: Path) -> None:
    source, target = tmp_path / "source.txt", tmp_path / "target.txt"
    source.write_text("first")
    target.write_text("damaged")
    mx.gluon.utils.download(source.as_uri(), str(target), sha1_hash=FIRST)
    assert target.read_text() == "first"
    assert mx.gluon.utils.check_sha1(str(target), FIRST)
    source.write_text("second")
    mx.gluon.utils.download(source.as_uri(), str(target), sha1_hash=FIRST)
    assert target.read_text() == "first"
    with pytest.raises(OSError, match=f"has another SHA-1 than {'0' * 40}"):
        mx.gluon.utils.download(source.as_uri(), str(target), sha1_hash="0" * 40)


def test_wrong_requests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="absent"):
        mx.gluon.utils.download((tmp_path / "absent").as_uri(), str(tmp_path), retries=0)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(AssertionError, match="retries is -1"):
        mx.gluon.utils.download("file:///x", str(tmp_path), retries=-1)
    with pytest.raises(AssertionError, match="ends with no name of a file"):
        mx.gluon.utils.download("file:///")


def test_unverified_certificates_are_warned_of(tmp_path: Path) -> None:
    source = tmp_path / "source.txt"
    source.write_text("first")
    with pytest.warns(UserWarning, match="is not verified"):
        mx.gluon.utils.download(source.as_uri(), str(tmp_path / "target.txt"), verify_ssl=False)
