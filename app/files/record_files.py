"""MXNet's RecordIO container, from strangers: the frames are walked, the records not read.

A frame is u32 magic, u32 (flag << 29 | length), the bytes, and padding to a multiple of four. A
record that holds the magic itself is split: flag 1 begins it, 2 goes on, 3 ends it; 0 is whole.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from app.errors import Damaged

__all__ = ["count_records"]

_MAGIC = 0xCED7230A
_WHOLE, _BEGIN, _MIDDLE, _END = range(4)
_FOLLOWING = {_WHOLE: (_WHOLE, _BEGIN), _END: (_WHOLE, _BEGIN)} | dict.fromkeys(
    (_BEGIN, _MIDDLE), (_MIDDLE, _END)
)


def count_records(path: Path) -> int:
    """Return the number of records; raise Damaged where the frames do not fit together."""
    size = path.stat().st_size
    position = count = 0
    last = _WHOLE
    with path.open("rb") as file:
        while position < size:
            flag, length = _read_frame(file.read(8), position)
            position += 8 + length + -length % 4
            if position > size or flag not in _FOLLOWING[last]:
                raise Damaged(f"byte {position}", "a frame that does not fit", "a whole record")
            file.seek(position, os.SEEK_SET)
            count += flag in (_WHOLE, _END)
            last = flag
    if last in (_BEGIN, _MIDDLE):
        raise Damaged(f"byte {size}", "the end of the file", "the rest of a record")
    return count


def _read_frame(raw: bytes, position: int) -> tuple[int, int]:
    if len(raw) < 8:
        raise Damaged(f"byte {position}", f"{len(raw)} bytes", "a frame's head of 8 bytes")
    magic, word = struct.unpack("<II", raw)
    if magic != _MAGIC:
        raise Damaged(f"byte {position}", f"{magic:#010x}", f"RecordIO's magic {_MAGIC:#010x}")
    flag, length = word >> 29, word & (1 << 29) - 1
    if flag > _END:
        raise Damaged(f"byte {position}", f"flag {flag}", f"0 to {_END}")
    return flag, length
