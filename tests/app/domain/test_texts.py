"""Splitting texts into tokens, and vocabulary files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.domain.texts import TextTransform
from app.domain.transforms import parse_transform, stored_transform
from app.domain.vocabularies import read_vocabulary
from app.errors.tree import Invalid

WORDS = ("<unk>", "the", "cat", "sat", "größe")


def read(text: str | bytes, longest: int = 9, **fields: Any) -> list[int]:
    transform = TextTransform(**{"vocabulary": WORDS, **fields})
    return transform.read(text.encode() if isinstance(text, str) else text, "data", longest)


def test_words_are_separated_by_blanks() -> None:
    assert read(" the\tcat\n  sat ") == [1, 2, 3]
    assert read(b"\xef\xbb\xbfthe cat") == [1, 2]


def test_lower_casing_is_optional() -> None:
    assert read("The GRÖSSE CAT", unknown="<unk>") == [0, 0, 0]
    assert read("The GRÖßE CAT", lowercase=True) == [1, 4, 2]


def test_characters_as_tokens() -> None:
    assert read("abß a", vocabulary=("a", "b", "ß", " "), tokens="characters") == [0, 1, 2, 3, 0]


def test_longer_texts_are_truncated_or_refused() -> None:
    assert read("the cat sat", 2) == [1, 2]
    assert read("the cat dog", 2) == [1, 2]  # tokens cut off need not be known
    assert read("the cat", 2, longer="refuse") == [1, 2]
    with pytest.raises(Invalid, match="data: got more tokens, expected at most 2"):
        read("the cat sat", 2, longer="refuse")
    with pytest.raises(Invalid, match="at most 2"):
        read("aaa", 2, longer="refuse", vocabulary=("a",), tokens="characters")
    with pytest.raises(Invalid, match="1,048,577 bytes"):
        read(b" " * ((1 << 20) + 1))


@pytest.mark.parametrize(
    ("text", "said"),
    [(" \n", "no token"), (b"the \xff", "byte 4"), ("the dog", "dog"), ("", "no token")],
)
def test_invalid_texts_are_refused(text: str | bytes, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        read(text)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"<unk>\nthe\n", {"vocabulary": ["<unk>", "the"]}),
        (b"a\r\n \r\nb", {"vocabulary": ["a", " ", "b"]}),
        (b"[\n(\n", {"vocabulary": ["[", "("]}),
        (b'["a", "b"]', {"vocabulary": ["a", "b"]}),
        (b'\xef\xbb\xbf["a", "b"]', {"vocabulary": ["a", "b"]}),
        (b"\xef\xbb\xbfa\nb\n", {"vocabulary": ["a", "b"]}),
        (
            json.dumps(
                {
                    "idx_to_token": ["<unk>", "<pad>", "a"],
                    "token_to_idx": {"<unk>": 0, "<pad>": 1, "a": 2},
                    "unknown_token": "<unk>",
                    "padding_token": "<pad>",
                    "bos_token": None,
                }
            ).encode(),
            {
                "vocabulary": ["<unk>", "<pad>", "a"],
                "unknown": "<unk>",
                "padding": "<pad>",
            },
        ),
    ],
)
def test_vocabulary_files_are_read(content: bytes, expected: dict[str, Any]) -> None:
    assert read_vocabulary(content, "vocabulary") == expected


@pytest.mark.parametrize("content", [b"\xff", b"[1]", b'{"a": 0}', b'{"idx_to_token": 3}'])
def test_invalid_vocabularies_are_refused(content: bytes) -> None:
    with pytest.raises(Invalid, match="vocabulary"):
        read_vocabulary(content, "vocabulary")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"vocabulary": []}, "x.vocabulary: got 0 tokens"),
        ({"vocabulary": ["a", ""]}, r"x.vocabulary\[1\]"),
        ({"vocabulary": ["a", "b", "a"]}, r"x.vocabulary\[2\]: got a, expected each token once"),
        ({"vocabulary": ["a"], "unknown": "b"}, "x.unknown: got b"),
        ({"vocabulary": ["a"], "padding": "b"}, "x.padding: got b"),
        ({"vocabulary": ["a"], "max_length": 0}, "x.max_length"),
        ({"vocabulary": ["a"], "lower": True}, "x.lower"),
        ({}, "x.vocabulary"),
        ({"type": ["text"]}, "x.type"),
    ],
)
def test_invalid_transforms_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        parse_transform({"type": "text", **fields}, "x")


def test_a_transform_is_stored_with_all_its_fields() -> None:
    transform = parse_transform({"type": "text", "vocabulary": ["a", "b"], "unknown": "b"}, "")
    assert isinstance(transform, TextTransform)
    assert transform.places == {"a": 0, "b": 1}
    plain = {"type": "text", "vocabulary": ["a", "b"], "unknown": "b"}
    assert stored_transform(plain) == transform
