"""Batches prepared ahead of time by threads."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import UsageError
from ..ndarray import NDArray
from .batch import DataBatch, DataDesc
from .iterator import DataIter

__all__ = ["PrefetchingIter"]


class PrefetchingIter(DataIter):
    """Joins iterators, each of which prepares its next batch in its own thread.

    Args:
        iters: one iterator or several, whose batches are joined.
        rename_data, rename_label: for each iterator a dict of new names by name.
    """

    def __init__(
        self,
        iters: Any,
        rename_data: Sequence[Mapping[str, str]] | None = None,
        rename_label: Sequence[Mapping[str, str]] | None = None,
    ) -> None:
        super().__init__()
        self.iters: list[Any] = list(iters) if isinstance(iters, (list, tuple)) else [iters]
        if not self.iters:
            raise UsageError("PrefetchingIter needs an iterator")
        self.n_iter = len(self.iters)
        self.provide_data = _renamed([one.provide_data for one in self.iters], rename_data)
        self.provide_label = _renamed([one.provide_label for one in self.iters], rename_label)
        self.batch_size = self.provide_data[0].shape[0]
        self.current_batch: DataBatch | None = None
        self._feeds = [_Feed(one) for one in self.iters]

    def reset(self) -> None:
        """Reset all iterators."""
        for feed in self._feeds:
            feed.restart()

    def iter_next(self) -> bool:
        """Move on by one batch; False at the end.

        Raises:
            UsageError: the iterators differ in the number of batches or in their padding.
        """
        batches = [feed.take() for feed in self._feeds]
        present = [batch for batch in batches if batch is not None]
        if not present:
            return False
        if len(present) < len(batches) or len({batch.pad for batch in present}) > 1:
            raise UsageError("Number of entry mismatches between iterators")
        self.current_batch = DataBatch(
            [array for batch in present for array in batch.data],
            [array for batch in present for array in batch.label or ()],
            present[0].pad,
            present[0].index,
            provide_data=self.provide_data,
            provide_label=self.provide_label,
        )
        return True

    def next(self) -> DataBatch:
        """Return the next batch; raise StopIteration at the end."""
        if not self.iter_next():
            raise StopIteration
        return self._current()

    def getdata(self) -> list[NDArray]:
        """Return the inputs of the current batch."""
        return list(self._current().data)

    def getlabel(self) -> list[NDArray]:
        """Return the labels of the current batch."""
        return list(self._current().label or ())

    def getindex(self) -> Any:
        """Return the positions of the current examples, or None."""
        return self._current().index

    def getpad(self) -> int | None:
        """Return how many examples at the end of the current batch are padding."""
        return self._current().pad

    def __del__(self) -> None:
        for feed in getattr(self, "_feeds", ()):
            feed.stop()

    def _current(self) -> DataBatch:
        if self.current_batch is None:
            raise UsageError("there is no current batch; call next() first")
        return self.current_batch


class _Feed:
    """One iterator and the thread that calls it; ``take`` re-raises the thread's errors."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._wanted: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._made: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # The thread gets the parts, not self, so that it does not keep this object alive.
        arguments = (source, self._wanted, self._made)
        self._thread = threading.Thread(target=_feed, args=arguments, daemon=True)
        self._thread.start()
        self._ended = False
        self._wanted.put(True)

    def take(self) -> DataBatch | None:
        """Return the next batch, or None at the end."""
        if self._ended:
            return None
        batch = self._made.get()
        if isinstance(batch, BaseException):
            self._ended = True
            raise batch
        if batch is None:
            self._ended = True
        else:
            self._wanted.put(True)
        made: DataBatch | None = batch
        return made

    def restart(self) -> None:
        """Reset the iterator."""
        if not self._ended:
            self._made.get()  # the batch in the making belongs to the epoch that ends here
        self._source.reset()
        self._ended = False
        self._wanted.put(True)

    def stop(self) -> None:
        """End the thread."""
        self._wanted.put(False)


def _feed(source: Any, wanted: Any, made: Any) -> None:
    while wanted.get():
        try:
            made.put(source.next())
        except StopIteration:
            made.put(None)
        except Exception as error:  # re-raised by take()
            made.put(error)


def _renamed(
    descs: Sequence[Sequence[Any]], names: Sequence[Mapping[str, str]] | None
) -> list[DataDesc]:
    if names is not None and len(names) != len(descs):
        raise UsageError(f"{len(names)} dicts of new names for {len(descs)} iterators")
    renamed = []
    for place, some in enumerate(descs):
        for one in some:
            desc = one if isinstance(one, DataDesc) else DataDesc(*one)
            name = desc.name if names is None else names[place][desc.name]
            renamed.append(DataDesc(name, desc.shape, desc.dtype, desc.layout))
    return renamed
