"""MXNet's RecordIO container, read without trust: only the framing is parsed, not the records.

A frame is u32 magic, u32 (flag << 29 | length), the bytes, and padding to a multiple of four. A
record that contains the magic itself is split there into several frames: flag 1 starts it, 2
continues it, 3 ends it; 0 is a whole record.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from app.errors.tree import Damaged

__all__ = ["MAGIC", "Part", "count_records", "read_record", "record_parts"]

_MAGIC = 0xCED7230A
MAGIC = struct.pack("<I", _MAGIC)
"""The bytes at the start of every file."""
_WHOLE, _BEGIN, _MIDDLE, _END = range(4)
_FOLLOWING = {_WHOLE: (_WHOLE, _BEGIN), _END: (_WHOLE, _BEGIN)} | dict.fromkeys(
    (_BEGIN, _MIDDLE), (_MIDDLE, _END)
)


class Part(NamedTuple):
    """A part of a record: the position and number of its bytes in the file."""

    position: int
    length: int


def count_records(path: Path) -> int:
    """Return the number of records; raise Damaged if the framing is broken."""
    return sum(1 for _ in record_parts(path))


def record_parts(path: Path) -> Iterator[list[Part]]:
    """Yield the parts of each record; raise Damaged if the framing is broken."""
    size = path.stat().st_size
    position = 0
    last = _WHOLE
    parts: list[Part] = []
    with path.open("rb") as file:
        while position < size:
            flag, length = _read_frame(file.read(8), position)
            parts.append(Part(position + 8, length))
            position += 8 + length + -length % 4
            if position > size or flag not in _FOLLOWING[last]:
                raise Damaged(f"byte {position}", "a frame that does not fit", "a whole record")
            file.seek(position, os.SEEK_SET)
            if flag in (_WHOLE, _END):
                yield parts
                parts = []
            last = flag
    if last in (_BEGIN, _MIDDLE):
        raise Damaged(f"byte {size}", "the end of the file", "the rest of a record")


def read_record(file: BinaryIO, parts: Sequence[Part]) -> bytes:
    """Return a record; the magic at which it was split is put back."""
    pieces = []
    for part in parts:
        file.seek(part.position)
        pieces.append(file.read(part.length))
    return MAGIC.join(pieces)


def _read_frame(raw: bytes, position: int) -> tuple[int, int]:
    if len(raw) < 8:
        raise Damaged(f"byte {position}", f"{len(raw)} bytes", "a frame header of 8 bytes")
    magic, word = struct.unpack("<II", raw)
    if magic != _MAGIC:
        raise Damaged(f"byte {position}", f"{magic:#010x}", f"RecordIO's magic {_MAGIC:#010x}")
    flag, length = word >> 29, word & (1 << 29) - 1
    if flag > _END:
        raise Damaged(f"byte {position}", f"flag {flag}", f"0 to {_END}")
    return flag, length
