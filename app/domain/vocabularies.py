"""Files of vocabularies: one token per line, or JSON as written by gluonnlp."""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import Any

import orjson

from app.errors.tree import Invalid

__all__ = ["read_vocabulary"]

_NAMED = {"unknown": "unknown_token", "padding": "padding_token"}
_EXPECTED = 'a token a line, a JSON list of tokens, or {"idx_to_token": […]} as of gluonnlp'


def read_vocabulary(content: bytes, field: str) -> dict[str, Any]:
    """Return the fields of a text transform in a file: ``vocabulary``, and special tokens if it has
    any.

    Raises:
        Invalid: it is not such a file.
    """
    content = content.removeprefix(BOM_UTF8)
    begin = content.lstrip()[:1]
    if begin not in (b"[", b"{"):
        return {"vocabulary": _lines(content, field)}
    try:
        parsed = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {"vocabulary": _lines(content, field)}  # a token may be a bracket
    if isinstance(parsed, list):
        return {"vocabulary": _texts(parsed, field)}
    named = {name: parsed[theirs] for name, theirs in _NAMED.items() if parsed.get(theirs)}
    return {"vocabulary": _texts(parsed.get("idx_to_token"), f"{field}.idx_to_token"), **named}


def _lines(content: bytes, field: str) -> list[str]:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise Invalid(field, f"byte {error.start} that is no UTF-8", _EXPECTED) from None
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _texts(tokens: Any, field: str) -> list[str]:
    if not isinstance(tokens, list):
        raise Invalid(field, tokens, _EXPECTED)
    for place, token in enumerate(tokens):
        if not isinstance(token, str):
            raise Invalid(f"{field}[{place}]", token, "a text")
    return tokens
