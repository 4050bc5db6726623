"""The lines of a text file: UTF-8, with or without a byte order mark, or UTF-16 with one."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Literal

from app.errors.tree import Damaged

__all__ = ["LONGEST_LINE", "count_lines", "first_lines", "lines", "raw_lines"]

LONGEST_LINE = 1 << 20

_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_EXPECTED = "text in UTF-8, or in UTF-16 with a byte order mark"
_REMEDY = "save it as UTF-8; in Excel the file type is called CSV UTF-8"
_FIRST_ESCAPE = 0xDC00
"""The decoder represents an invalid byte by this code plus the byte."""


def count_lines(path: Path) -> int:
    """Return the number of lines; raise Damaged."""
    return sum(1 for _ in lines(path))


def first_lines(path: Path, rows: int) -> list[str]:
    """Return the first lines, without line ends."""
    return [line for _, line in islice(lines(path), rows)]


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and text of every line, without its end; raise Damaged."""
    for number, line in raw_lines(path, "\n"):
        yield number, line.rstrip("\r\n")


def raw_lines(path: Path, newline: Literal["", "\n"]) -> Iterator[tuple[int, str]]:
    """Yield the number and text of every line, with its end; raise Damaged.

    Args:
        newline: what ends a line; if empty, line feeds, carriage returns, or both together.
    """
    number = 0
    with path.open(encoding=_encoding(path), errors="surrogateescape", newline=newline) as file:
        while True:
            number += 1
            try:
                line = file.readline(LONGEST_LINE + 1)
            except UnicodeDecodeError as error:  # only of UTF-16: it has no escapes for all bytes
                raise Damaged(f"line {number} or after it", error, _EXPECTED, _REMEDY) from None
            if not line:
                return
            _check_line(line, number)
            yield number, line


def _check_line(line: str, number: int) -> None:
    if len(line) > LONGEST_LINE:
        got, expected = "a longer line", f"at most {LONGEST_LINE:,} characters"
        raise Damaged(f"line {number}", got, expected)
    if line.isascii():
        return
    try:
        line.encode()
    except UnicodeEncodeError as error:
        byte = (ord(line[error.start]) - _FIRST_ESCAPE) & 0xFF
        raise Damaged(f"line {number}", f"byte 0x{byte:02x}", _EXPECTED, _REMEDY) from None


def _encoding(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(3)
    return next((name for mark, name in _MARKS.items() if head.startswith(mark)), "utf-8")
