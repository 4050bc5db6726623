"""The key an operator supplies, as text or in a mounted secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.domain.api_key import KeyScope, is_text_of, new_key_text
from app.errors.tree import StartError
from app.files.configured_key import given_key


def test_no_key_is_supplied() -> None:
    assert given_key(None, None) is None


def test_a_supplied_key_is_an_admin_key(tmp_path: Path) -> None:
    text = new_key_text()
    file = tmp_path / "key"
    file.write_text(f"\n{text}\r\n")
    for key in (given_key(text, None), given_key(f" {text}\n", None), given_key(None, file)):
        assert key is not None
        assert is_text_of(key, text)
        assert (key.scopes, key.expires_at) == ((KeyScope.ADMIN,), None)


@pytest.mark.parametrize("coding", ["utf-8-sig", "utf-16"])
def test_a_file_may_have_a_byte_order_mark(tmp_path: Path, coding: str) -> None:
    text, file = new_key_text(), tmp_path / "key"
    file.write_text(f"{text}\r\n", encoding=coding)
    key = given_key(None, file)
    assert key is not None
    assert is_text_of(key, text)


def test_text_and_file_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="unset one"):
        given_key(new_key_text(), tmp_path / "key")


@pytest.mark.parametrize("text", ["", "secret", "msk_000000000000_short", "a b", "ä" * 60])
def test_an_invalid_key_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    for arguments in ((text, None), (None, tmp_path / "key")):
        with pytest.raises(StartError, match="modserve keys generate") as caught:
            given_key(*arguments)
        assert not text or text not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(StartError, match=rf"MODSERVE_API_KEY_FILE: {path} cannot be read"):
            given_key(None, path)
