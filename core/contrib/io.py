"""Batches of a ``gluon.data.DataLoader`` for modules (``mx.contrib.io``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .. import ndarray as nd
from ..io import DataDesc, DataIter
from ..ndarray import NDArray

__all__ = ["DataLoaderIter"]


class DataLoaderIter(DataIter):
    """A data iterator over a loader of pairs of data and labels.

    The shapes are those of the first batch, for which the loader is iterated once more. A shorter
    batch at the end is filled with zeros, which ``getpad`` counts.

    Args:
        loader: a ``gluon.data.DataLoader``, or anything else that yields such pairs.
        data_name, label_name: what the module calls them.
        dtype: of the arrays in batches.
    """

    def __init__(
        self,
        loader: Iterable[Any],
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: Any = "float32",
    ) -> None:
        data, label = next(iter(loader))
        super().__init__(data.shape[0])
        self.dtype = dtype
        self.provide_data = [DataDesc(data_name, data.shape, dtype)]
        self.provide_label = [DataDesc(label_name, label.shape, dtype)]
        self._loader = loader
        self._batches: Iterator[Any] = iter(loader)
        self._current_batch: Any = None

    def reset(self) -> None:
        """Go back to the start."""
        self._batches = iter(self._loader)

    def iter_next(self) -> bool:
        """Move on by one batch; False at the end."""
        self._current_batch = next(self._batches, None)
        return self._current_batch is not None

    def getdata(self) -> list[NDArray]:
        """Return the data of the current batch."""
        return [self._filled(self._current_batch[0])]

    def getlabel(self) -> list[NDArray]:
        """Return the labels of the current batch."""
        return [self._filled(self._current_batch[1])]

    def getpad(self) -> int:
        """Return how many examples at the end of the current batch are padding."""
        return self.batch_size - int(self._current_batch[0].shape[0])

    def _filled(self, values: NDArray) -> NDArray:
        values = values.astype(self.dtype)
        if not self.getpad():
            return values
        rest = nd.zeros((self.getpad(), *values.shape[1:]), dtype=self.dtype)
        filled: NDArray = nd.concat(values, rest, dim=0)
        return filled
