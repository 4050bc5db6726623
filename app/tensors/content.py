"""The content of an answer, made block by block while it is sent.

The JSON of an output takes several times its memory. Whole, it would do so for as long as a client
takes to read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from app.tensors.writing import Buffer, HostArray, as_octets, join

__all__ = ["Content"]

_BLOCK_BYTES = 1 << 18
"""Takes a few milliseconds to write as JSON."""

_FEW_BYTES = 1 << 16
"""``bytes.join`` begins sooner, but holds the interpreter's lock."""


class Content:
    """Pieces that are made when they are needed; they are read once.

    Attributes:
        size: number of bytes, None if only making them tells.
        is_over: True when nothing is left.
    """

    __slots__ = ("_octets", "_pieces", "is_over", "size")

    def __init__(self, pieces: Iterable[Buffer | HostArray], size: int | None = None) -> None:
        self._pieces = pieces
        self._octets: Iterator[memoryview] | None = None
        self.size = size
        self.is_over = False

    @classmethod
    def of(cls, pieces: Iterable[Buffer | HostArray]) -> Content:
        """Return the content of pieces that exist already."""
        made = list(pieces)
        return cls(
            made, sum(one.nbytes if not isinstance(one, bytes) else len(one) for one in made)
        )

    def whole(self) -> bytes | memoryview:
        """Return all of it at once."""
        self.is_over = True
        if self.size is not None and self.size <= _FEW_BYTES:
            return b"".join(_flat(one) for one in self._pieces)
        return join(self._pieces)

    def next_block(self) -> memoryview:
        """Return the next bytes, as a copy; empty at the end."""
        if self._octets is None:
            self._octets = _in_blocks(self._pieces)
        parts, count = [], 0
        while count < _BLOCK_BYTES:
            part = next(self._octets, None)
            if part is None:
                self.is_over = True
                break
            parts.append(part)
            count += len(part)
        return join(parts)


def _flat(piece: Buffer | HostArray) -> Buffer:
    return piece if isinstance(piece, (bytes, memoryview)) else as_octets(piece).data


def _in_blocks(pieces: Iterable[Buffer | HostArray]) -> Iterator[memoryview]:
    for piece in pieces:
        octets = as_octets(piece)
        for begin in range(0, octets.size, _BLOCK_BYTES):
            yield octets[begin : begin + _BLOCK_BYTES].data
