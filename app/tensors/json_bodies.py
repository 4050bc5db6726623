"""JSON bodies, parsed with a limit on their depth."""

from __future__ import annotations

from codecs import BOM_UTF8
from itertools import chain
from typing import Any

import orjson

from app.errors.tree import Malformed

__all__ = ["check_depth", "load_json", "parse_json"]

DEEPEST = 100
"""Nesting depth allowed in a body; tensors need one level for each axis."""


def parse_json(body: bytes) -> Any:
    """Parse a JSON body; raise Malformed if it is not JSON, or too deep."""
    parsed = load_json(body)
    # Counting the brackets is fast, and shows for most bodies that they cannot be too deep.
    if body.count(b"[") + body.count(b"{") > DEEPEST:
        check_depth(parsed)
    return parsed


def load_json(body: bytes) -> Any:
    """Parse a JSON body of any depth; raise Malformed with the position of the fault.

    A byte order mark, with which Windows' programs write files, is skipped.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if body[: len(BOM_UTF8)] == BOM_UTF8:
            return load_json(body[len(BOM_UTF8) :])
        raise Malformed(f"the body is not JSON: {_fault(body, error)}") from None


def _fault(body: bytes, error: orjson.JSONDecodeError) -> str:
    if not body.strip():
        return "it is empty"
    try:
        body.decode()
    except UnicodeDecodeError as undecodable:
        # orjson says the same of all such bodies, and names no place.
        return (
            f"its byte {undecodable.start} is not UTF-8; if the body has another form, such as "
            "npy, say which by Content-Type"
        )
    if b"NaN" in body or b"Infinity" in body:
        return f"{error}; JSON has no NaN and no Infinity: send tensors with them as npz"
    return str(error)


def check_depth(parsed: Any) -> None:
    """Raise Malformed if lists and objects are nested deeper than any body needs.

    Code that walks over them recurses once a level, and Python's limit is a thousand.
    """
    level = [parsed] if isinstance(parsed, (list, dict)) else []
    for _ in range(DEEPEST):
        inside = (one.values() if isinstance(one, dict) else one for one in level)
        level = [one for one in chain.from_iterable(inside) if isinstance(one, (list, dict))]
        if not level:
            return
    raise Malformed(f"the body nests lists and objects more than {DEEPEST} deep")
