"""The protocol of data iterators, and iterators over other iterators."""

from __future__ import annotations

from typing import Any

from ..ndarray import NDArray
from .batch import DataBatch, DataDesc

__all__ = ["DataIter", "ResizeIter"]


class DataIter:
    """Base of all iterators: a subclass overrides ``next``, or ``iter_next`` and the getters.

    As in MXNet a getter that is not overridden returns None, as for an iterator without labels.
    """

    provide_data: list[DataDesc]
    provide_label: list[DataDesc]

    def __init__(self, batch_size: int = 0) -> None:
        self.batch_size = batch_size

    def __iter__(self) -> DataIter:
        return self

    def __next__(self) -> DataBatch:
        return self.next()

    def reset(self) -> None:
        """Go back to the start."""

    def next(self) -> DataBatch:
        """Return the next batch; raise StopIteration at the end."""
        if not self.iter_next():
            raise StopIteration
        return DataBatch(self.getdata(), self.getlabel(), self.getpad(), self.getindex())

    def iter_next(self) -> bool:
        """Move on by one batch; False at the end."""
        raise NotImplementedError(f"{type(self).__name__} must define next or iter_next")

    def getdata(self) -> list[NDArray] | None:
        """Return the inputs of the current batch."""
        return None

    def getlabel(self) -> list[NDArray] | None:
        """Return the labels of the current batch."""
        return None

    def getindex(self) -> Any:
        """Return the positions of the current examples, or None."""
        return None

    def getpad(self) -> int | None:
        """Return how many examples at the end of the current batch are padding."""
        return None


class ResizeIter(DataIter):
    """An iterator of exactly ``size`` batches, which resets the inner iterator as needed."""

    def __init__(self, data_iter: DataIter, size: int, reset_internal: bool = True) -> None:
        super().__init__(data_iter.batch_size)
        self.data_iter = data_iter
        self.size = size
        self.reset_internal = reset_internal
        self.cur = 0
        self.current_batch: DataBatch | None = None
        self.provide_data = data_iter.provide_data
        self.provide_label = data_iter.provide_label
        if hasattr(data_iter, "default_bucket_key"):
            self.default_bucket_key = data_iter.default_bucket_key

    def reset(self) -> None:
        """Count from 0 again; with ``reset_internal`` reset the inner iterator too."""
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def next(self) -> DataBatch:
        """Return the inner iterator's next batch."""
        if self.cur == self.size:
            raise StopIteration
        try:
            self.current_batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            self.current_batch = self.data_iter.next()
        self.cur += 1
        return self.current_batch
