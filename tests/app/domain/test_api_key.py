"""API keys as values: verification, scopes, expiry."""

from __future__ import annotations

import base64

import pytest

from app.domain.api_key import (
    ApiKey,
    KeyScope,
    digest_of,
    is_text_of,
    key_id_of,
    new_key_text,
)
from app.domain.codec import from_plain, to_plain
from app.errors.tree import Invalid


def make(text: str, *scopes: KeyScope, **fields: float) -> ApiKey:
    key_id = key_id_of(text)
    assert key_id is not None
    return ApiKey(
        id=key_id, name="k", scopes=scopes, sha256=digest_of(text), created_at=0.0, **fields
    )


def test_a_key_has_32_random_bytes() -> None:
    texts = {new_key_text() for _ in range(100)}
    assert len(texts) == len({key_id_of(text) for text in texts}) == 100
    for text in texts:
        secret = text.split("_", 2)[2]
        assert len(base64.urlsafe_b64decode(secret + "=")) == 32


def test_only_the_exact_text_is_the_key() -> None:
    text = new_key_text()
    key = make(text, KeyScope.READ)
    assert is_text_of(key, text)
    # The last of 43 letters has two unused bits, so that other letters decode to the same bytes.
    for wrong in (text[:-1], text + "=", text.upper(), new_key_text(), "", *spellings(text)):
        assert not is_text_of(key, wrong)
    assert not is_text_of(None, text)


def spellings(text: str) -> list[str]:
    last = [text[:-1] + letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef0123456789-_"]
    return [one for one in last if one != text]


@pytest.mark.parametrize("text", ["", "msk_", "msk_0_x", "msk_" + "g" * 12 + "_" + "x" * 43])
def test_other_formats_are_not_keys(text: str) -> None:
    assert key_id_of(text) is None


def test_nothing_stored_can_be_used_as_the_key() -> None:
    text = new_key_text()
    kept = str(to_plain(make(text, KeyScope.ADMIN)))
    assert text not in kept
    assert text.split("_", 2)[2] not in kept


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [
        (KeyScope.METRICS, {"metrics"}),
        (KeyScope.READ, {"read", "metrics"}),
        (KeyScope.INFER, {"infer"}),
        (KeyScope.TRAIN, {"train", "read", "metrics"}),
        (KeyScope.ADMIN, {"metrics", "read", "infer", "train", "admin"}),
    ],
)
def test_scopes_include_lesser_ones(scope: KeyScope, allowed: set[str]) -> None:
    key = make(new_key_text(), scope)
    assert {one.value for one in KeyScope if key.allows((one,))} == allowed
    assert key.allows((KeyScope.READ, KeyScope.INFER)) is bool(allowed & {"read", "infer"})
    assert not make(new_key_text()).allows(tuple(KeyScope))


def test_a_key_expires() -> None:
    key = make(new_key_text(), KeyScope.READ, expires_at=10.0)
    assert [key.is_expired(now) for now in (9.9, 10.0, 11.0)] == [False, True, True]
    assert not make(new_key_text(), KeyScope.READ).is_expired(1e12)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("name", "a b"), ("name", ""), ("name", "x" * 65), ("name", "a\nb")),
        *(("rate", 0.0), ("rate", -1.0), ("concurrency", 0), ("id", "x"), ("sha256", "0")),
    ],
)
def test_impossible_fields_are_refused(field: str, value: object) -> None:
    plain = to_plain(make(new_key_text(), KeyScope.READ))
    with pytest.raises(Invalid, match=field):
        from_plain(ApiKey, plain | {field: value})


def test_an_invalid_name_is_answered_with_the_rule_in_words() -> None:
    plain = to_plain(make(new_key_text(), KeyScope.READ))
    with pytest.raises(Invalid, match=r"expected 1 to 64 of A-Z a-z 0-9 [.] _ @ - beginning with"):
        from_plain(ApiKey, plain | {"name": "a b"})
