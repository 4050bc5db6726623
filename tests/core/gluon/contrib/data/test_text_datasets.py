"""Published texts from archives and folders; their numbers are in ``test_gluon_data_golden``."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from core.errors import FormatError, MXNetError, UsageError
from core.gluon.contrib.data.text import WikiText2, WikiText103


def test_an_archive_is_read_without_unpacking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "datasets" / "wikitext-2"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "wikitext-2-v1.zip", "w") as archive:
        archive.writestr("wikitext-2/wiki.test.tokens", " a b \n \n c \n")
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    text = WikiText2(segment="test", seq_len=2)
    assert text.vocabulary.idx_to_token == ["<unk>", "<eos>", "a", "b", "c"]
    assert [[part.asnumpy().tolist() for part in pair] for pair in text] == [
        [[2, 3], [3, 1]],
        [[1, 4], [4, 1]],
    ]
    assert text.frequencies == {"a": 1, "b": 1, "c": 1}
    with pytest.raises(FormatError, match=r"wikitext-2-v1\.zip has no wiki\.train\.tokens"):
        WikiText2()
    # A file beside the archive comes first, that of a folder as unpacked as well.
    (folder / "wikitext-2").mkdir()
    (folder / "wikitext-2" / "wiki.test.tokens").write_text("d\n")
    assert len(WikiText2(segment="test", seq_len=1)) == 1


def test_what_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        MXNetError,
        match=r"lacks wiki\.valid\.tokens\. Nothing is downloaded: put these files there, or the "
        r"archive wikitext-103-v1\.zip with it, or give their folder as root=\.",
    ):
        WikiText103(str(tmp_path), "validation")
    with pytest.raises(UsageError, match="segment is 'valid'; use one of train, validation, test"):
        WikiText2(str(tmp_path), "valid")
    (tmp_path / "wiki.train.tokens").write_bytes(b"a \xff b")
    with pytest.raises(FormatError, match=r"wiki\.train\.tokens is not UTF-8 text"):
        WikiText2(str(tmp_path))
    (tmp_path / "wikitext-2-v1.zip").write_bytes(b"PK, but no archive")
    with pytest.raises(MXNetError, match=r"wikitext-2-v1\.zip cannot be read: "):
        WikiText2(str(tmp_path), "test")


def test_a_text_shorter_than_a_sequence_has_none(tmp_path: Path) -> None:
    (tmp_path / "wiki.test.tokens").write_text("")
    assert len(WikiText2(str(tmp_path), "test")) == 0
