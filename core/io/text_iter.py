"""Iterators over text files: CSV and LibSVM."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FormatError, MXNetError, ShapeError, UsageError
from ..ndarray import NDArray, array
from ..ndarray.sparse import csr_matrix
from ..types import Shape, shape_size, to_dtype
from .row_iter import RowIter, Rows

__all__ = ["CSVIter", "LibSVMIter"]

CSV_TYPES = ("float32", "int32", "int64")
NO_FILE = ("", "NULL", None)  # "NULL" is MXNet's default


class CSVIter(RowIter):
    """Rows of comma-separated numbers.

    Args:
        data_csv: path of a file, or of a folder of files.
        data_shape: shape of one row.
        batch_size: rows in a batch.
        label_csv: path of the labels; None for zeros.
        label_shape: shape of one label.
        round_batch: pad the last batch with the first rows, which the next epoch leaves out;
            otherwise with rows left over from the previous batch.
        dtype: ``"float32"``, ``"int32"`` or ``"int64"``.
        data_name, label_name: names of the inputs.
        prefetch_buffer, ctx: ignored: the file is read into memory at once.
    """

    def __init__(
        self,
        data_csv: str,
        data_shape: Sequence[int],
        batch_size: int,
        label_csv: str | None = None,
        label_shape: Sequence[int] = (1,),
        round_batch: bool = True,
        dtype: Any = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        prefetch_buffer: int = 4,
        ctx: str = "cpu",
    ) -> None:
        kind = to_dtype(dtype or "float32")
        if kind.name not in CSV_TYPES:
            raise UsageError(f"dtype is {kind.name}; CSVIter reads {', '.join(CSV_TYPES)}")
        self._data = _read_csv(data_csv, tuple(data_shape), kind)
        # As in MXNet a label of one number adds no axis.
        label_shape = () if tuple(label_shape) == (1,) else tuple(label_shape)
        if label_csv in NO_FILE:
            self._label: Rows = np.zeros((len(self._data), *label_shape), kind)
        else:
            self._label = _read_csv(str(label_csv), label_shape, kind)
        if len(self._label) != len(self._data):
            raise ShapeError(
                f"{label_csv} has {len(self._label)} rows, {data_csv} has {len(self._data)}"
            )
        super().__init__(
            len(self._data),
            batch_size,
            bool(round_batch),
            data_name=data_name,
            label_name=label_name,
        )

    def take(self, rows: Rows) -> tuple[NDArray, NDArray]:
        """Return data and labels of the given rows."""
        data, label = self._data[rows], self._label[rows]
        return array(data, dtype=data.dtype), array(label, dtype=label.dtype)


class LibSVMIter(RowIter):
    """Rows of ``label column:value ...``, columns from 0, as csr arrays.

    Args:
        data_libsvm: path of a file, or of a folder of files.
        data_shape: (columns,).
        batch_size: rows in a batch; the last one is padded with the first rows, which the next
            epoch leaves out.
        label_libsvm: path of labels in the same format, which become csr arrays too; if None, the
            numbers before the columns are the labels.
        label_shape: (columns,) of these.
        num_parts, part_index: read only part ``part_index`` of ``num_parts`` equal parts.
        round_batch: must be True.
        data_name, label_name: names of the inputs.
        prefetch_buffer, ctx: ignored: the file is read into memory at once.
    """

    def __init__(
        self,
        data_libsvm: str,
        data_shape: Sequence[int],
        batch_size: int,
        label_libsvm: str | None = None,
        label_shape: Sequence[int] = (1,),
        num_parts: int = 1,
        part_index: int = 0,
        round_batch: bool = True,
        data_name: str = "data",
        label_name: str = "softmax_label",
        prefetch_buffer: int = 64,
        ctx: str = "cpu",
    ) -> None:
        if not round_batch:
            raise UsageError("LibSVMIter only supports round_batch=True")
        if len(data_shape) != 1 or len(label_shape) != 1:
            raise UsageError(f"data_shape {data_shape} and label_shape {label_shape} have one axis")
        self._data = _SparseRows(data_libsvm, data_shape[0])
        self._label = None
        if label_libsvm not in NO_FILE:
            self._label = _SparseRows(str(label_libsvm), label_shape[0])
            if len(self._label) != len(self._data):
                raise ShapeError(
                    f"{label_libsvm} has {len(self._label)} rows, {data_libsvm} has "
                    f"{len(self._data)}"
                )
        if not 0 <= part_index < num_parts:
            raise UsageError(f"part_index {part_index} is not among {num_parts} parts")
        share = len(self._data) // num_parts
        self._first = part_index * share
        count = share if part_index < num_parts - 1 else len(self._data) - self._first
        super().__init__(count, batch_size, True, data_name=data_name, label_name=label_name)

    def take(self, rows: Rows) -> tuple[NDArray, NDArray]:
        """Return data and labels of the given rows."""
        chosen = rows + self._first
        label = (
            array(self._data.numbers[chosen]) if self._label is None else self._label.take(chosen)
        )
        return self._data.take(chosen), label


class _SparseRows:
    """The rows of LibSVM files."""

    def __init__(self, path: str, width: int) -> None:
        self.width = width
        numbers, starts, columns, values = [], [0], [], []
        for file, number, line in _lines(path):
            try:
                label, *pairs = line.split()
                numbers.append(float(label))
                for pair in pairs:
                    column, _, value = pair.partition(":")
                    columns.append(int(column))
                    values.append(float(value))
            except ValueError as error:
                raise FormatError(f"{file}, line {number}: {error}") from None
            starts.append(len(columns))
        self.numbers = np.array(numbers, np.float32)
        self._starts = np.array(starts)
        self._columns = np.array(columns, np.int64)
        self._values = np.array(values, np.float32)
        if len(columns) and not 0 <= self._columns.min() <= self._columns.max() < width:
            raise FormatError(
                f"{path}: columns go from {self._columns.min()} to {self._columns.max()}; a row "
                f"has {width}, counted from 0"
            )

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, rows: Rows) -> NDArray:
        counts = self._starts[rows + 1] - self._starts[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        chosen = np.arange(indptr[-1]) + np.repeat(self._starts[rows] - indptr[:-1], counts)
        parts = (self._values[chosen], self._columns[chosen], indptr)
        return csr_matrix(parts, shape=(len(rows), self.width), dtype="float32")


def _files(path: str) -> list[Path]:
    root = Path(path)
    if not root.exists():
        raise MXNetError(f"{path} does not exist")
    if not root.is_dir():
        return [root]
    return sorted(file for file in root.iterdir() if file.is_file())


def _lines(path: str) -> list[tuple[Path, int, str]]:
    return [
        (file, number, line)
        for file in _files(path)
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if line.strip()
    ]


def _read_csv(path: str, shape: Shape, dtype: np.dtype[Any]) -> Rows:
    """Return the rows of CSV files, each in a shape."""
    tables = []
    for file in _files(path):
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "loadtxt: input contained no data")
                tables.append(np.loadtxt(file, dtype, delimiter=",", ndmin=2))
        except ValueError as error:
            raise FormatError(f"{file}: {error}") from None
    table = np.concatenate([one for one in tables if one.size] or [np.zeros((0, 1), dtype)])
    if len(table) and table.shape[1] != shape_size(shape):
        raise ShapeError(
            f"{path} has {table.shape[1]} numbers in a row, shape {shape} needs {shape_size(shape)}"
        )
    return table.reshape(len(table), *shape)
