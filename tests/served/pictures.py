"""Encoded pictures."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
from PIL import Image

__all__ = ["bomb", "picture"]


def bomb(side: int) -> bytes:
    """Return a small PNG file that claims to hold ``side`` x ``side`` pixels."""
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + _chunk(b"IDAT", zlib.compress(bytes(1000)))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def picture(width: int, height: int, kind: str = "PNG", mode: str = "RGB", seed: int = 0) -> bytes:
    """Return an encoded picture of soft noise whose channels differ."""
    random = np.random.RandomState(seed)
    pixels = random.randint(0, 256, (max(2, height // 4), max(2, width // 4), 3)).astype(np.uint8)
    soft = Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC)
    stream = io.BytesIO()
    soft.convert(mode).save(stream, kind)
    return stream.getvalue()
