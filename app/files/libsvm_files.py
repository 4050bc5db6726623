"""The libsvm format, read line by line, every number checked."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from app.domain.dataset import ArrayInfo
from app.errors.tree import Damaged
from app.files.dataset_limits import check_unpacked_size
from app.files.text_lines import LONGEST_LINE, lines

__all__ = ["inspect_libsvm", "load_libsvm", "preview_libsvm"]

_ITEM_BYTES = 4
_LARGEST_INDEX = 2**31 - 1


def inspect_libsvm(path: Path, limit: int) -> list[ArrayInfo]:
    """Return the descriptions of a libsvm file's arrays; raise Damaged at the first bad line."""
    count, width = _shape(path)
    if not count:
        raise Damaged("file", "no rows", "at least one line: label index:value ...")
    check_unpacked_size(count * (width + 1) * _ITEM_BYTES, limit)
    return [
        ArrayInfo(name="data", shape=(count, width), dtype="float32"),
        ArrayInfo(name="label", shape=(count,), dtype="float32"),
    ]


def load_libsvm(path: Path, names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a libsvm file; indices count from 0, as in MXNet."""
    count, width = _shape(path)
    return _arrays(path, count, width)


def preview_libsvm(path: Path, rows: int) -> dict[str, npt.NDArray[Any]]:
    """Return the first rows of a libsvm file, as wide as those rows need."""
    head = list(islice(_rows(path), rows))
    width = max((index + 1 for _, pairs in head for index in pairs), default=0)
    if width * len(head) > LONGEST_LINE:
        head = []
    return _arrays(path, len(head), width)


def _rows(path: Path) -> Iterator[tuple[float, dict[int, float]]]:
    """Yield the label and the values by index of every line."""
    for number, line in lines(path):
        text = line.split("#", 1)[0]
        label, *pairs = text.split() or [""]
        if not label:
            continue
        if "_" in text:  # which Python reads over within numbers
            raise Damaged(f"line {number}", line, "label index:value index:value ...")
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


def _shape(path: Path) -> tuple[int, int]:
    count = width = 0
    for _, values in _rows(path):
        count, width = count + 1, max(width, max(values, default=-1) + 1)
    return count, width


def _arrays(path: Path, count: int, width: int) -> dict[str, npt.NDArray[Any]]:
    data = np.zeros((count, width), np.float32)
    label = np.zeros(count, np.float32)
    for i, (target, values) in enumerate(islice(_rows(path), count)):
        label[i] = target
        data[i, list(values)] = list(values.values())
    return {"data": data, "label": label}
