"""BYTES tensors: each element is preceded by its length."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from app.errors.tree import Invalid, Malformed
from app.link.slots import Piece

__all__ = ["pack", "pack_json", "unpack"]

_LENGTH = struct.Struct("<I")


def pack(elements: Iterable[bytes]) -> bytes:
    """Return the bytes of a tensor."""
    return b"".join(_LENGTH.pack(len(one)) + one for one in elements)


def pack_json(data: Any, count: int, field: str) -> bytes:
    """Return the bytes of a tensor whose elements are strings in (nested) JSON lists.

    Args:
        count: number of elements, from the shape.
    """
    while isinstance(data, list) and data and all(isinstance(one, list) for one in data):
        data = list(chain.from_iterable(data))
    if not isinstance(data, list) or not all(isinstance(one, str) for one in data):
        raise Invalid(field, data, "a list of strings")
    if len(data) != count:
        raise Invalid(field, f"{len(data)} strings", f"{count}, as in shape")
    return pack(one.encode() for one in data)


def unpack(content: Piece, count: int, name: str) -> list[bytes]:
    """Return the elements of a tensor; raise Malformed if its bytes do not match the count.

    Args:
        name: name of the input.
    """
    elements = list(_elements(bytes(content), name))
    if len(elements) != count:
        raise Malformed(f"input {name!r} has {len(elements)} elements; its shape needs {count}")
    return elements


def _elements(content: bytes, name: str) -> Iterator[bytes]:
    at = 0
    while at < len(content):
        begin = at + _LENGTH.size
        if begin > len(content):
            raise Malformed(f"the bytes of input {name!r} end in the middle of an element's length")
        at = begin + _LENGTH.unpack_from(content, begin - _LENGTH.size)[0]
        if at > len(content):
            raise Malformed(f"the bytes of input {name!r} end in the middle of an element")
        yield content[begin:at]
