"""Content codings: compressed request and response bodies."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

from app.errors.tree import Malformed, TooLarge, UnsupportedCoding
from app.tensors.content import Content

__all__ = ["chosen_coding", "compress", "decompress", "known_coding"]

_GZIP, _DEFLATE = "gzip", "deflate"
_NAMES = {_GZIP: _GZIP, "x-gzip": _GZIP, _DEFLATE: _DEFLATE}
_WINDOW = {_GZIP: 31, _DEFLATE: 15}
"""zlib's ``wbits`` for each format; HTTP's deflate has zlib's header (RFC 9110, 8.4.1.2)."""
_LEVEL = 1  # higher levels hardly compress numbers further
_PIECE_BYTES = 1 << 20
_QUALITY = re.compile(r"\s*q\s*=\s*(0(\.[0-9]{0,3})?|1(\.0{0,3})?)\s*", re.IGNORECASE)


def known_coding(content_encoding: str | None) -> str | None:
    """Return the coding of a body, None if it is not compressed; raise UnsupportedCoding."""
    name = (content_encoding or "").strip().lower()
    if name in ("", "identity"):
        return None
    if name not in _NAMES:
        raise UnsupportedCoding(name, (_GZIP, _DEFLATE))
    return _NAMES[name]


def decompress(body: bytes, coding: str, limit: int, setting: str) -> bytes:
    """Return the decompressed body.

    Raises:
        Malformed: it is truncated, or has another coding.
        TooLarge: it exceeds the limit.
    """
    pieces: list[bytes] = []
    size, rest = 0, body
    while rest or not pieces:  # a gzip file may have several members (RFC 1952, 2.2)
        member = zlib.decompressobj(_WINDOW[coding])
        while not member.eof:
            try:
                # In pieces, so that a small body that unpacks to gigabytes is refused in time.
                piece = member.decompress(rest, _PIECE_BYTES)
            except zlib.error as error:
                raise Malformed(f"the body is not {coding}: {error}") from None
            size += len(piece)
            if size > limit:
                raise TooLarge("body, decompressed", got=None, limit=limit, setting=setting)
            pieces.append(piece)
            rest = member.unconsumed_tail
            if not piece and not rest and not member.eof:
                raise Malformed(f"the body ends in the middle of its {coding}")
        rest = member.unused_data
        if rest and coding == _DEFLATE:
            raise Malformed(f"{len(rest):,} bytes follow the end of the deflated body")
    return b"".join(pieces)


def chosen_coding(accept_encoding: str) -> str | None:
    """Return the coding that the client prefers among ours, None for none.

    Only codings that it names are used: some clients send ``*`` but cannot read any.
    """
    best, best_quality = None, 0.0
    for one in accept_encoding.lower().split(","):
        name, *parameters = one.split(";")
        coding = _NAMES.get(name.strip())
        quality = _quality_of(parameters)
        if coding is not None and quality > best_quality:
            best, best_quality = coding, quality
    return best if best_quality >= _quality_of_identity(accept_encoding) else None


def compress(content: Content, coding: str) -> Iterator[bytes]:
    """Yield content in a coding."""
    compressor = zlib.compressobj(_LEVEL, wbits=_WINDOW[coding])
    while not content.is_over:
        yield compressor.compress(content.next_block())
    yield compressor.flush()


def _quality_of(parameters: list[str]) -> float:
    if not parameters:
        return 1.0
    found = _QUALITY.fullmatch(parameters[0])
    return float(found[1]) if found is not None and len(parameters) == 1 else 0.0


def _quality_of_identity(accept_encoding: str) -> float:
    for one in accept_encoding.lower().split(","):
        name, *parameters = one.split(";")
        if name.strip() == "identity":
            return _quality_of(parameters)
    return 0.0  # acceptable, but a client that names a coding prefers that
