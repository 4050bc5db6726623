"""Batches of the rows of a file, with MXNet's way of padding the last one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import UsageError
from ..ndarray import NDArray
from .batch import DataBatch, DataDesc
from .iterator import DataIter

__all__ = ["RowIter"]

Rows = np.ndarray[Any, Any]


class RowIter(DataIter):
    """Base of iterators over rows in memory; a subclass makes arrays of selected rows.

    The last batch is padded with the first rows, which the next epoch then leaves out
    (``round_batch``); otherwise its padding is what the previous batch had in those places.

    Args:
        count: number of rows.
        batch_size: rows in a batch.
        round_batch: pad the last batch with the first rows.
        drop_rest: drop an incomplete last batch.
        data_name, label_name: names of the inputs.

    Raises:
        UsageError: fewer rows than a batch has.
    """

    def __init__(
        self,
        count: int,
        batch_size: int,
        round_batch: bool,
        drop_rest: bool = False,
        data_name: str = "data",
        label_name: str = "softmax_label",
    ) -> None:
        super().__init__(batch_size)
        if batch_size < 1:
            raise UsageError(f"batch_size is {batch_size}; expected 1 or more")
        if count < batch_size:
            raise UsageError(
                f"number of input must be bigger than batch size: {count} rows, batches of "
                f"{batch_size}"
            )
        self._count = count
        self._round_batch = round_batch
        self._drop_rest = drop_rest
        self._next_row = 0
        self._overflow = 0
        self._rows = np.arange(batch_size)
        self._pad = 0
        data, label = self.take(self._rows)
        self.provide_data = [DataDesc(data_name, data.shape, data.dtype)]
        self.provide_label = [DataDesc(label_name, label.shape, label.dtype)]
        self._batch = (data, label)

    def take(self, rows: Rows) -> tuple[NDArray, NDArray]:
        """Return data and labels of the given rows."""
        raise NotImplementedError(f"{type(self).__name__} must define take")

    def start_round(self) -> None:
        """Called before every epoch that begins with the first row."""

    def reset(self) -> None:
        """Go back to the start, or to the first row that did not pad the last batch."""
        if self._overflow:
            self._next_row, self._overflow = self._overflow, 0
        else:
            self._next_row = 0
            self.start_round()

    def iter_next(self) -> bool:
        """Move on by one batch; False at the end."""
        start, stop = self._next_row, self._next_row + self.batch_size
        beyond = max(stop - self._count, 0)
        if self._overflow or start >= self._count or (beyond and self._drop_rest):
            return False
        self._pad = beyond
        if self._round_batch or not beyond:
            self._rows = np.arange(start, stop) % self._count
            self._overflow = beyond
        else:
            left = self._count - start
            self._rows = np.concatenate([np.arange(start, self._count), self._rows[left:]])
        self._next_row = stop
        self._batch = self.take(self._rows)
        return True

    def next(self) -> DataBatch:
        """Return the next batch; raise StopIteration at the end."""
        if not self.iter_next():
            raise StopIteration
        return DataBatch([self._batch[0]], [self._batch[1]], self._pad, self.getindex())

    def getdata(self) -> Any:
        """Return the data of the current batch: one array."""
        return self._batch[0]

    def getlabel(self) -> Any:
        """Return the label of the current batch: one array."""
        return self._batch[1]

    def getpad(self) -> int:
        """Return how many rows at the end of the current batch are padding."""
        return self._pad

    def getindex(self) -> Rows:
        """Return the numbers of the current rows."""
        return self._rows.astype(np.uint64)
