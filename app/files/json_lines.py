"""JSON lines, one example a line: ``{"data": [5, 2, 9], "softmax_label": 1}``.

Each name becomes an array. If its examples differ in length, they are joined end to end, and
``data_lengths`` holds their lengths, which jobs find by that name.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from app.domain.dataset import ArrayInfo, lengths_name
from app.errors.tree import Damaged, Invalid, Malformed
from app.files.dataset_limits import check_unpacked_size
from app.files.text_lines import lines
from app.tensors.json_bodies import parse_json
from app.tensors.json_tensors import read_tensor

__all__ = ["inspect_jsonl", "load_jsonl", "preview_jsonl"]

Row = dict[str, npt.NDArray[Any]]

_BYTES = 8  # float64, like csv files
_EXPECTED = 'an example as {"data": [1, 2, 3], "softmax_label": 0}'


class _Column:
    """The values that all examples have under one name."""

    def __init__(self, name: str, first: tuple[int, ...]) -> None:
        self.name = name
        self._is_list = len(first) > 0
        self._example = first[1:]
        self._lengths: list[int] = []

    def take(self, shape: tuple[int, ...], line: int) -> None:
        """Add an example; raise Damaged if it differs from the first in more than its length.

        Args:
            shape: its shape.
            line: where it is in the file.
        """
        if (len(shape) > 0, shape[1:]) != (self._is_list, self._example):
            dims = ["any", *map(str, self._example)] if self._is_list else []
            expected = f"shape ({', '.join(dims)}), as in lines before"
            raise Damaged(f"line {line}", f"{self.name!r} of shape {shape}", expected)
        self._lengths.append(shape[0] if shape else 1)

    def infos(self) -> list[ArrayInfo]:
        """Return the descriptions of the column's arrays."""
        count = len(self._lengths)
        if not self._is_list:
            return [ArrayInfo(name=self.name, shape=(count,), dtype="float64")]
        if len(set(self._lengths)) == 1:
            shape = (count, self._lengths[0], *self._example)
            return [ArrayInfo(name=self.name, shape=shape, dtype="float64")]
        shape = (sum(self._lengths), *self._example)
        return [
            ArrayInfo(name=self.name, shape=shape, dtype="float64"),
            ArrayInfo(name=lengths_name(self.name), shape=(count,), dtype="int64"),
        ]

    def lengths(self) -> npt.NDArray[np.int64]:
        """Return the length of each example."""
        return np.array(self._lengths, np.int64)


def inspect_jsonl(path: Path, limit: int) -> list[ArrayInfo]:
    """Return the descriptions of a file's arrays; raise TooLarge, or Damaged for a bad line."""
    size = 0
    columns: dict[str, _Column] = {}
    for number, row in _rows(path):
        if not columns:
            columns = {name: _Column(name, array.shape) for name, array in row.items()}
        if row.keys() != columns.keys():
            expected = f"{', '.join(columns)}, as in line 1"
            raise Damaged(f"line {number}", ", ".join(row) or "no names", expected)
        for name, array in row.items():
            columns[name].take(array.shape, number)
            size += max(array.size, 1) * _BYTES
        check_unpacked_size(size, limit)
    if not columns:
        raise Damaged("file", "no examples", f"lines, each {_EXPECTED}")
    infos = [info for column in columns.values() for info in column.infos()]
    if len({info.name for info in infos}) < len(infos):
        name = next(info.name for info in infos if info.dtype == "int64")
        raise Damaged(
            "file", f"the name {name!r}", "another name: this one is taken by the lengths"
        )
    return infos


def load_jsonl(path: Path, names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a file that was inspected."""
    return _arrays([row for _, row in _rows(path)])


def preview_jsonl(path: Path, rows: int) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of the first lines."""
    return _arrays([row for _, row in islice(_rows(path), rows)])


def _arrays(rows: list[Row]) -> dict[str, npt.NDArray[Any]]:
    columns = {name: _Column(name, array.shape) for name, array in rows[0].items()}
    for number, row in enumerate(rows, 1):
        for name, column in columns.items():
            column.take(row[name].shape, number)
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, column in columns.items():
        info, *of_lengths = column.infos()
        parts = [np.atleast_1d(row[name]) for row in rows]
        arrays[name] = np.concatenate(parts).reshape(info.shape)
        if of_lengths:
            arrays[lengths_name(name)] = column.lengths()
    return arrays


def _rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield the number and arrays of every line that is not empty."""
    for number, line in lines(path):
        if not line.strip():
            continue
        try:
            parsed = parse_json(line.encode())
        except Malformed as error:
            raise Damaged(f"line {number}", error, _EXPECTED) from None
        if not isinstance(parsed, dict) or not parsed:
            raise Damaged(f"line {number}", line[:100], _EXPECTED)
        try:
            yield number, {name: _array(value, name) for name, value in parsed.items()}
        except Invalid as error:
            (fault,) = error.errors
            raise Damaged(f"line {number}, {fault.field}", fault.got, fault.expected) from None


def _array(value: Any, name: str) -> npt.NDArray[Any]:
    if not isinstance(value, int | float | list):
        raise Invalid(name, value, "a number, or lists of numbers")
    if isinstance(value, list):
        return read_tensor(value, name, "float64")
    number = float(value)
    if not math.isfinite(number):
        raise Invalid(name, value, "a finite number")
    return np.array(number)
