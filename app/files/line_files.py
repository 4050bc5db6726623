"""The csv and libsvm formats and plain text, read line by line, every number checked."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from app.domain.dataset import ArrayInfo
from app.errors import Damaged
from app.files.dataset_limits import check_unpacked_size

__all__ = [
    "count_lines",
    "first_lines",
    "inspect_csv",
    "inspect_libsvm",
    "lines",
    "load_csv",
    "load_libsvm",
    "preview_csv",
    "preview_libsvm",
]

_LONGEST_LINE = 1 << 20
_CSV_BYTES = 8  # float64, so that ids of many digits are exact
_LIBSVM_BYTES = 4
_LARGEST_INDEX = 2**31 - 1


def count_lines(path: Path) -> int:
    """Return the number of lines of UTF-8 text; raise Damaged."""
    return sum(1 for _ in lines(path))


def first_lines(path: Path, rows: int) -> list[str]:
    """Return the first lines, without line ends."""
    return [line for _, line in islice(lines(path), rows)]


def inspect_csv(path: Path, limit: int) -> list[ArrayInfo]:
    """Return the descriptions of a csv file's arrays; raise Damaged at the first bad line."""
    names = _csv_names(path)
    count = width = 0
    for row in _csv_rows(path, names):
        count, width = count + 1, len(row)
        check_unpacked_size(count * width * _CSV_BYTES, limit)
    if not count:
        raise Damaged("file", "no rows", "at least one line of numbers")
    if names is None:
        return [ArrayInfo(name="data", shape=(count, width), dtype="float64")]
    return [ArrayInfo(name=name, shape=(count,), dtype="float64") for name in names]


def load_csv(path: Path, names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a csv file."""
    return _csv_arrays(path, None)


def preview_csv(path: Path, rows: int) -> dict[str, npt.NDArray[Any]]:
    """Return the first rows of a csv file."""
    return _csv_arrays(path, rows)


def inspect_libsvm(path: Path, limit: int) -> list[ArrayInfo]:
    """Return the descriptions of a libsvm file's arrays; raise Damaged at the first bad line."""
    count, width = _libsvm_shape(path)
    if not count:
        raise Damaged("file", "no rows", "at least one line: label index:value ...")
    check_unpacked_size(count * (width + 1) * _LIBSVM_BYTES, limit)
    return [
        ArrayInfo(name="data", shape=(count, width), dtype="float32"),
        ArrayInfo(name="label", shape=(count,), dtype="float32"),
    ]


def load_libsvm(path: Path, names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a libsvm file; indices count from 0, as in MXNet."""
    count, width = _libsvm_shape(path)
    return _libsvm_arrays(path, count, width)


def preview_libsvm(path: Path, rows: int) -> dict[str, npt.NDArray[Any]]:
    """Return the first rows of a libsvm file, as wide as those rows need."""
    head = list(islice(_libsvm_rows(path), rows))
    width = max((index + 1 for _, pairs in head for index in pairs), default=0)
    if width * len(head) > _LONGEST_LINE:
        head = []
    return _libsvm_arrays(path, len(head), width)


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and text of every line."""
    with path.open("rb") as file:
        number = 0
        while raw := file.readline(_LONGEST_LINE + 1):
            number += 1
            if len(raw) > _LONGEST_LINE:
                raise Damaged(f"line {number}", "a longer line", f"at most {_LONGEST_LINE:,} bytes")
            try:
                yield number, raw.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise Damaged(f"line {number}", error, "UTF-8 text") from None


def _csv_names(path: Path) -> list[str] | None:
    """Return the names in the first line, None if it already holds numbers."""
    _, first = next(lines(path), (0, ""))
    cells = [cell.strip().strip('"') for cell in first.split(",")]
    try:
        for cell in cells:
            float(cell)
    except ValueError:
        if len(set(cells)) != len(cells) or not all(cells):
            raise Damaged("line 1", first, "distinct names, or numbers") from None
        return cells
    return None


def _csv_rows(path: Path, names: list[str] | None) -> Iterator[list[float]]:
    width = None if names is None else len(names)
    for number, line in islice(lines(path), 0 if names is None else 1, None):
        if not line.strip():
            continue
        try:
            row = [float(cell) for cell in line.split(",")]
        except ValueError as error:
            raise Damaged(f"line {number}", error, "numbers separated by commas") from None
        if width is not None and len(row) != width:
            raise Damaged(
                f"line {number}", f"{len(row)} numbers", f"{width}, as in the lines before"
            )
        width = len(row)
        yield row


def _csv_arrays(path: Path, rows: int | None) -> dict[str, npt.NDArray[Any]]:
    names = _csv_names(path)
    table = np.array(list(islice(_csv_rows(path, names), rows)), np.float64)
    if names is None:
        return {"data": table}
    table = table.reshape(len(table), len(names))
    return {name: np.ascontiguousarray(table[:, i]) for i, name in enumerate(names)}


def _libsvm_rows(path: Path) -> Iterator[tuple[float, dict[int, float]]]:
    """Yield the label and the values by index of every line."""
    for number, line in lines(path):
        label, *pairs = line.split("#", 1)[0].split() or [""]
        if not label:
            continue
        try:
            values = {}
            for pair in pairs:
                index, value = pair.split(":")
                values[int(index)] = float(value)
            row = float(label), values
        except ValueError as error:
            raise Damaged(f"line {number}", error, "label index:value index:value ...") from None
        if not all(0 <= index < _LARGEST_INDEX for index in values) or not math.isfinite(row[0]):
            raise Damaged(f"line {number}", line, "a finite label and indices from 0")
        yield row


def _libsvm_shape(path: Path) -> tuple[int, int]:
    count = width = 0
    for _, values in _libsvm_rows(path):
        count, width = count + 1, max(width, max(values, default=-1) + 1)
    return count, width


def _libsvm_arrays(path: Path, count: int, width: int) -> dict[str, npt.NDArray[Any]]:
    data = np.zeros((count, width), np.float32)
    label = np.zeros(count, np.float32)
    for i, (target, values) in enumerate(islice(_libsvm_rows(path), count)):
        label[i] = target
        data[i, list(values)] = list(values.values())
    return {"data": data, "label": label}
