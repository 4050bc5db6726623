"""The csv format, as spreadsheets and programs write it.

The separator is a comma, semicolon or tab. A column holds numbers or texts, as its first row does;
each text becomes a class, numbered in sorted order. A file of numbers without a header is one
array, ``data``; each column of any other file is an array, named by the header, or else ``column1``
and so on.
"""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from app.domain.dataset import MAX_CLASSES, TEXT, ArrayInfo
from app.errors.tree import Damaged
from app.files.dataset_limits import check_unpacked_size
from app.files.text_lines import raw_lines

__all__ = ["inspect_csv", "load_csv", "preview_csv"]

_ITEM_BYTES = 8  # of float64, so that ids of many digits are exact, and of int64
_WITH_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_FORMATTED = re.compile(r"[+-]?\d+([.,']\d+)+")
_MAX_CLASS = 1000  # characters
_MAX_LETTERS = 1 << 16
"""Limit on the classes of a column together, which are in the dataset's record."""

_Record = tuple[int, list[str]]
"""The number of a record's first line, and its cells."""


class _Numbers:
    """Reads numbers, with a decimal comma if that cannot be a separator."""

    def __init__(self, separator: str) -> None:
        self._takes_comma = separator != ","
        self._seen = ""

    def row(self, cells: list[str]) -> list[float] | None:
        """Return the numbers of a row; None if it is not one of numbers."""
        if self._takes_comma:
            numbers = [one for one in map(self.read, cells) if one is not None]
            return numbers if len(numbers) == len(cells) else None
        if any("_" in cell for cell in cells):  # which Python reads over, as in 2020_01
            return None
        try:
            return list(map(float, cells))
        except ValueError:
            return None

    def read(self, cell: str) -> float | None:
        """Return the number in a cell; None for anything else, or for another decimal mark than
        that of numbers before it."""
        mark = ""
        if self._takes_comma and _WITH_DECIMAL_COMMA.fullmatch(cell):
            mark, cell = ",", cell.replace(",", ".")
        elif self._takes_comma and "." in cell:
            mark = "."
        if "_" in cell:
            return None
        try:
            number = float(cell)
        except ValueError:
            return None
        if mark and self._seen not in ("", mark):
            return None
        self._seen = self._seen or mark
        return number


@dataclass(slots=True)
class _Sheet:
    """A file whose first lines were read.

    Attributes:
        names: of the columns; None for rows of numbers without a header.
        is_text: for each column.
        rows: all of them, of equal width.
    """

    names: list[str] | None
    is_text: list[bool]
    rows: Iterator[_Record]
    numbers: _Numbers


class _Texts:
    """The different texts of a column, as long as they can be classes.

    Attributes:
        found: the texts; none once they are too many, or too long in all, to be classes.
    """

    def __init__(self) -> None:
        self.found: set[str] = set()
        self.are_classes = True
        self._letters = 0

    def take(self, text: str) -> None:
        """Add a text."""
        if not self.are_classes or text in self.found:
            return
        self.found.add(text)
        self._letters += len(text)
        if len(self.found) > MAX_CLASSES or self._letters > _MAX_LETTERS:
            self.are_classes = False
            self.found.clear()


class _Column:
    """The cells of a column: numbers, or the classes of texts."""

    def __init__(self, name: str, is_text: bool) -> None:
        self.name = name
        self.is_text = is_text
        self.count = 0
        self._numbers = array("d")
        self._codes = array("q")
        self._seen: dict[str, int] = {}

    def take(self, number: float) -> None:
        """Add a number."""
        self._numbers.append(number)

    def take_text(self, text: str) -> None:
        """Add a text."""
        self._codes.append(self._seen.setdefault(text, len(self._seen)))

    def values(self) -> npt.NDArray[Any]:
        """Return the numbers, or the classes of the texts."""
        if not self.is_text:
            return np.frombuffer(self._numbers, np.float64)
        places = {text: place for place, text in enumerate(sorted(self._seen))}
        ranks = np.array([places[text] for text in self._seen], np.int64)
        return ranks[np.frombuffer(self._codes, np.int64)]


def inspect_csv(path: Path, limit: int) -> list[ArrayInfo]:
    """Return the descriptions of a csv file's arrays; raise Damaged at the first bad line."""
    sheet = _read_sheet(path)
    count, width = 0, len(sheet.is_text)
    texts = {place: _Texts() for place, is_text in enumerate(sheet.is_text) if is_text}
    for line, cells in sheet.rows:
        count += 1
        check_unpacked_size(count * width * _ITEM_BYTES, limit)
        _numbers_of(sheet, line, cells)
        for place, found in texts.items():
            found.take(_text(sheet, line, cells, place))
    if not count:
        raise Damaged("file", "no rows", "at least one line of numbers")
    if sheet.names is None:
        return [ArrayInfo(name="data", shape=(count, width), dtype="float64")]
    return [_info(name, count, texts.get(place)) for place, name in enumerate(sheet.names)]


def load_csv(path: Path, names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
    """Return the named arrays of a csv file that it has; texts as the numbers of their classes."""
    sheet = _read_sheet(path)
    if sheet.names is None:
        return {"data": _table(sheet, None)}
    wanted = [
        (place, _Column(name, sheet.is_text[place]))
        for place, name in enumerate(sheet.names)
        if name in names
    ]
    for line, cells in sheet.rows:
        numbers = _numbers_of(sheet, line, cells)
        for place, column in wanted:
            if column.is_text:
                column.take_text(_text(sheet, line, cells, place))
            else:
                column.take(numbers[place])
    return {column.name: column.values() for _, column in wanted}


def preview_csv(path: Path, rows: int) -> dict[str, npt.NDArray[Any]]:
    """Return the first rows of a csv file; texts as they are."""
    sheet = _read_sheet(path)
    if sheet.names is None:
        return {"data": _table(sheet, rows)}
    head = [(cells, _numbers_of(sheet, line, cells)) for line, cells in islice(sheet.rows, rows)]
    return {
        name: np.array([cells[place] for cells, _ in head], object)
        if sheet.is_text[place]
        else np.array([numbers[place] for _, numbers in head], np.float64)
        for place, name in enumerate(sheet.names)
    }


def _info(name: str, count: int, texts: _Texts | None) -> ArrayInfo:
    if texts is None:
        return ArrayInfo(name=name, shape=(count,), dtype="float64")
    if not texts.are_classes:
        return ArrayInfo(name=name, shape=(count,), dtype=TEXT)
    return ArrayInfo(name=name, shape=(count,), dtype="int64", classes=tuple(sorted(texts.found)))


def _table(sheet: _Sheet, rows: int | None) -> npt.NDArray[Any]:
    table, width = array("d"), len(sheet.is_text)
    for line, cells in islice(sheet.rows, rows):
        table.extend(_numbers_of(sheet, line, cells))
    return np.frombuffer(table, np.float64).reshape(-1, width)


# -- rows -------------------------------------------------------------------------------------


def _numbers_of(sheet: _Sheet, line: int, cells: list[str]) -> list[float]:
    """Return the numbers of a row, with zeros for its texts; raise Damaged."""
    if not any(sheet.is_text):
        numbers = sheet.numbers.row(cells)
        if numbers is not None:
            return numbers
    numbers = []
    for place, cell in enumerate(cells):
        number = 0.0 if sheet.is_text[place] else sheet.numbers.read(cell)
        if number is None:
            got = repr(cell) if cell else "an empty cell"
            expected = "a number, as in the rows before"
            raise Damaged(_where(sheet, line, place), got, expected, _remedy(cell))
        numbers.append(number)
    return numbers


def _remedy(cell: str) -> str:
    """Return a hint if a cell may be a number that somebody has formatted."""
    is_formatted = any(mark in cell for mark in ",.") and any(map(str.isdigit, cell))
    return "all numbers need the same decimal mark, and none between thousands" * is_formatted


def _text(sheet: _Sheet, line: int, cells: list[str], place: int) -> str:
    text = cells[place]
    if not text or len(text) > _MAX_CLASS:
        got = f"{len(text):,} characters" if text else "an empty cell"
        expected = f"the name of a class, of at most {_MAX_CLASS:,} characters"
        raise Damaged(_where(sheet, line, place), got, expected)
    return text


def _where(sheet: _Sheet, line: int, place: int) -> str:
    name = f"column {place + 1}" if sheet.names is None else f"column {sheet.names[place]!r}"
    return f"line {line}, {name}"


# -- the beginning of a file --------------------------------------------------------------------


def _read_sheet(path: Path) -> _Sheet:
    """Read the first lines of a file, which say what its columns are; raise Damaged."""
    separator = _separator(path)
    records = _records(path, separator)
    numbers = _Numbers(separator)
    first, second = next(records, None), next(records, None)
    if first is None:
        raise Damaged("line 1", "nothing", "distinct names, or numbers")
    begin = [one for one in (first, second) if one is not None]
    above = _texts_of(first[1], separator)
    below = [False] * len(above) if second is None else _texts_of(second[1], separator)
    # Names above numbers, or above anything; but a row of numbers and texts above its like is data.
    has_header = any(above) and (all(above) or above != below)
    names: list[str] | None = None
    if has_header:
        names = _header(first, separator)
        del begin[0]
    elif any(above):
        names = [f"column{place}" for place in range(1, len(above) + 1)]
    is_text = (below if second is not None else above) if has_header else above
    rows = _checked(chain(begin, records), len(above))
    sheet = _Sheet(names, is_text, rows, numbers)
    if begin:
        _refuse_formatted(sheet, *begin[0])
    return sheet


def _refuse_formatted(sheet: _Sheet, line: int, cells: list[str]) -> None:
    """Refuse a first row with ``1,234``: it is no name, and could be two different numbers."""
    for place, cell in enumerate(cells):
        if place < len(sheet.is_text) and sheet.is_text[place] and _FORMATTED.fullmatch(cell):
            raise Damaged(_where(sheet, line, place), repr(cell), "a number", _remedy(cell))


def _texts_of(cells: list[str], separator: str) -> list[bool]:
    """Return for each cell whether it is a text; an empty one may be a missing number."""
    numbers = _Numbers(separator)
    return [bool(cell) and numbers.read(cell) is None for cell in cells]


def _header(record: _Record, separator: str) -> list[str]:
    line, names = record
    where = f"line {line}"
    if "" in names:
        got = f"no name for column {names.index('') + 1}"
        remedy = "pandas writes its index so, unless it is called as to_csv(…, index=False)"
        raise Damaged(where, got, "a name for each column", remedy)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Damaged(where, f"{twice!r} twice", "distinct names, or numbers")
    return names


def _checked(records: Iterator[_Record], width: int) -> Iterator[_Record]:
    for line, cells in records:
        if len(cells) != width:
            expected = f"{width}, as in the lines before"
            raise Damaged(f"line {line}", f"{len(cells)} cells", expected)
        yield line, cells


def _separator(path: Path) -> str:
    """Return the separator of the cells: where a semicolon or tab is, a comma may be decimal."""
    _, first = next(raw_lines(path, ""), (0, ""))
    if _is_declaration(first):
        return first[4]
    outside = re.sub(r'"[^"]*"', "", first)
    return next((one for one in (";", "\t") if one in outside), ",")


def _is_declaration(line: str) -> bool:
    """Return whether a line is what Excel understands as ``sep=;``."""
    return line.startswith("sep=") and len(line.rstrip("\r\n")) == 5


def _records(path: Path, separator: str) -> Iterator[_Record]:
    """Yield the records that are not empty; a quoted cell may have several lines."""
    begun = 1
    reader = csv.reader(_lines(path), delimiter=separator, skipinitialspace=True, strict=True)
    while True:
        try:
            cells = [cell.strip() for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            expected = f"cells separated by {separator!r}, each whole or in double quotes"
            raise Damaged(f"line {begun}", error, expected) from None
        if any(cells):
            yield begun, cells
        begun = reader.line_num + 1


def _lines(path: Path) -> Iterator[str]:
    for number, line in raw_lines(path, ""):
        if "\0" in line:
            expected = "text; if it is UTF-16, with a byte order mark"
            raise Damaged(f"line {number}", "a zero byte", expected, "save it as UTF-8")
        yield "\n" if number == 1 and _is_declaration(line) else line
