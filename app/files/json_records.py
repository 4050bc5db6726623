"""Domain values as JSON files with a digest, so that damage is noticed.

    {"format": 1, "sha256": "...", "record": {...}}

The digest is of the record's canonical JSON: a flipped bit in a learning rate would otherwise just
be another learning rate.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, TypeVar

import orjson

from app.domain.codec import from_plain, to_plain
from app.errors.tree import Damaged, Invalid, NotFound

__all__ = ["decode_record", "encode_record", "read_record"]

_FORMAT = 1

T = TypeVar("T")


def encode_record(value: Any) -> bytes:
    """Return a domain value as the bytes of its file."""
    plain = to_plain(value)
    content = {"format": _FORMAT, "sha256": _digest(plain), "record": plain}
    return orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def decode_record(cls: type[T], data: bytes, where: str) -> T:
    """Build the value that ``encode_record`` wrote; raise Damaged for anything else."""
    try:
        content = orjson.loads(data)
        number, digest, plain = (content[name] for name in ("format", "sha256", "record"))
    except (ValueError, TypeError, KeyError) as error:
        raise Damaged(where, f"no record ({error})", "JSON as it was written") from None
    if number != _FORMAT:
        raise Damaged(where, f"format {number!r}", f"format {_FORMAT}; run a newer modserve")
    if digest != _digest(plain):
        raise Damaged(where, f"SHA-256 {_digest(plain)}", f"SHA-256 {digest}")
    try:
        return from_plain(cls, plain)
    except Invalid as error:
        raise Damaged(where, error, "a record as it was written") from None


def read_record(cls: type[T], path: Path) -> T:
    """Read a record's file.

    Raises:
        NotFound: the file does not exist.
        Damaged: the file is not as it was written.
    """
    where = f"{path.parent.name}/{path.name}"
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound("file", where) from None
    except OSError as error:
        raise Damaged(where, error, "a file that can be read") from None
    return decode_record(cls, data, where)


def _digest(plain: Any) -> str:
    return hashlib.sha256(orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)).hexdigest()
