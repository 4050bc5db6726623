"""Batches from arrays in memory (``mx.io.NDArrayIter``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import UsageError, WrongType
from ..ndarray import CSRNDArray, NDArray, array, concatenate
from ..ndarray.scipy_matrix import is_scipy_csr
from .batch import DataBatch, DataDesc
from .iterator import DataIter

__all__ = ["NDArrayIter", "_init_data"]

_LAST_BATCH = ("pad", "discard", "roll_over")


class NDArrayIter(DataIter):
    """Iterate over arrays whose batch axis counts the examples.

    Args:
        data: an array, a list of arrays or arrays by name (NumPy, NDArray or SciPy's csr_matrix).
        label: the same for the labels; None for none. There may be more of them than data.
        batch_size: examples per batch.
        shuffle: reorder the examples at every ``reset`` (with ``numpy.random``, as MXNet does).
        last_batch_handle: ``"pad"`` fills an incomplete last batch from the start, ``"discard"``
            drops it, ``"roll_over"`` keeps its examples for the next pass.
        data_name, label_name: names for unnamed arrays.
        layout: layout of all arrays; ``N`` is the batch axis.

    Raises:
        ValueError: an array has fewer examples than the first one, or an unknown
            ``last_batch_handle``.
        NotImplementedError: a ``CSRNDArray`` with another ``last_batch_handle`` than ``"discard"``.
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        last_batch_handle: str = "pad",
        data_name: str = "data",
        label_name: str = "softmax_label",
        layout: str = "NCHW",
    ) -> None:
        super().__init__(batch_size)
        if last_batch_handle not in _LAST_BATCH:
            raise ValueError(
                f"last_batch_handle is {last_batch_handle!r}; expected one of {_LAST_BATCH}"
            )
        self.layout = layout
        self._axis = layout.find("N")
        self.data = _named_arrays(data, data_name)
        self.label = _named_arrays(label, label_name) if label is not None else []
        if not self.data:
            raise UsageError("NDArrayIter got no data arrays")
        self.num_data = self._count(*self.data[0])
        for name, values in (*self.data, *self.label):
            if self._count(name, values) < self.num_data:
                raise ValueError(
                    f"{name!r} has {self._count(name, values)} examples, "
                    f"{self.data[0][0]!r} has {self.num_data}"
                )
        self._refuse_incomplete_csr(last_batch_handle)
        self.idx = np.arange(self.num_data)
        self.shuffle = shuffle
        self.last_batch_handle = last_batch_handle
        self.cursor = -batch_size
        self._rolled: tuple[list[NDArray], list[NDArray]] | None = None
        self.reset()
        self.data_list = [values for _, values in (*self.data, *self.label)]
        self.num_source = len(self.data_list)

    @property
    def provide_data(self) -> list[DataDesc]:  # type: ignore[override]
        """Descriptions of the inputs."""
        return [self._describe(name, values) for name, values in self.data]

    @property
    def provide_label(self) -> list[DataDesc]:  # type: ignore[override]
        """Descriptions of the labels."""
        return [self._describe(name, values) for name, values in self.label]

    def hard_reset(self) -> None:
        """Go back to the start and drop the examples rolled over."""
        if self.shuffle:
            self._shuffle_data()
        self.cursor = -self.batch_size
        self._rolled = None

    def reset(self) -> None:
        """Go back to the start; with ``roll_over`` the kept examples come first."""
        if self.shuffle:
            self._shuffle_data()
        rest = self.num_data - self.cursor
        if self.last_batch_handle == "roll_over" and 0 < rest < self.batch_size:
            # iter_next() adds the batch size: the first batch begins `rest` rows before the start.
            self.cursor = -rest - self.batch_size
        else:
            self.cursor = -self.batch_size

    def iter_next(self) -> bool:
        """Move on by one batch; False at the end."""
        self.cursor += self.batch_size
        return self.cursor < self.num_data

    def next(self) -> DataBatch:
        """Return the next batch; raise StopIteration at the end."""
        if not self.iter_next():
            raise StopIteration
        data, label = self.getdata(), self.getlabel()
        if data[0].shape[self._axis] != self.batch_size:
            self._rolled = (data, label)
            raise StopIteration
        self._rolled = None
        return DataBatch(data, label, self.getpad(), None)

    def getdata(self) -> list[NDArray]:
        """Return the inputs of the current batch: copies, which may be changed in place."""
        return self._batch(self.data, 0)

    def getlabel(self) -> list[NDArray]:
        """Return the labels of the current batch."""
        return self._batch(self.label, 1)

    def getpad(self) -> int:
        """Return how many examples were filled in at the end, or rolled over at the start."""
        beyond = self.cursor + self.batch_size - self.num_data
        if self.last_batch_handle == "pad" and beyond > 0:
            return beyond
        if self.last_batch_handle == "roll_over" and -self.batch_size < self.cursor < 0:
            return -self.cursor
        return 0

    def _refuse_incomplete_csr(self, last_batch_handle: str) -> None:
        if last_batch_handle == "discard":
            return
        for name, values in (*self.data, *self.label):
            if values.stype == "csr":
                raise NotImplementedError(
                    f"{name!r} is a CSRNDArray, which NDArrayIter supports only with "
                    f"last_batch_handle='discard', got {last_batch_handle!r}"
                )

    def _count(self, name: str, values: NDArray) -> int:
        if values.ndim <= self._axis:
            raise ValueError(
                f"{name!r} has shape {values.shape}, which has no axis {self._axis} of examples"
            )
        return values.shape[self._axis]

    def _describe(self, name: str, values: NDArray) -> DataDesc:
        shape = list(values.shape)
        shape[self._axis] = self.batch_size
        return DataDesc(name, shape, values.dtype, self.layout)

    def _batch(self, source: list[tuple[str, NDArray]], which: int) -> list[NDArray]:
        start, stop = self.cursor, self.cursor + self.batch_size
        if start < 0 and self._rolled is not None:
            head = self._rolled[which]
            return self._join(head, [self._cut(values, 0, stop) for _, values in source])
        if stop > self.num_data and self.last_batch_handle == "pad":
            return [self._wrapped(values) for _, values in source]
        return [self._cut(values, start, min(stop, self.num_data)) for _, values in source]

    def _wrapped(self, values: NDArray) -> NDArray:
        """Return the rows from the cursor on, followed by rows from the start to fill the batch.

        Labels beyond the length of the data are returned too, as in MXNet.
        """
        rest = np.arange(self.cursor, values.shape[self._axis])
        missing = self.cursor + self.batch_size - self.num_data
        rows = np.concatenate([rest, np.arange(missing) % self.num_data])
        return array(np.take(values.asnumpy(), rows, axis=self._axis), dtype=values.dtype)

    def _cut(self, values: NDArray, start: int, stop: int) -> NDArray:
        if values.stype == "csr":
            return values[start:stop]
        index = [slice(None)] * self._axis + [slice(start, stop)]
        return NDArray(values.dense()[tuple(index)].copy(), values.context)

    def _join(self, first: list[NDArray], second: list[NDArray]) -> list[NDArray]:
        pairs = zip(first, second, strict=True)
        return [concatenate([a, b], axis=self._axis) for a, b in pairs]

    def _shuffle_data(self) -> None:
        np.random.shuffle(self.idx)
        self.data = [(name, self._reordered(values)) for name, values in self.data]
        self.label = [(name, self._reordered(values)) for name, values in self.label]

    def _reordered(self, values: NDArray) -> NDArray:
        if isinstance(values, CSRNDArray):
            return values.take_rows(self.idx)
        taken = np.take(values.asnumpy(), self.idx, axis=self._axis)
        return array(taken, values.context, dtype=values.dtype)


def _init_data(data: Any, allow_empty: bool, default_name: str) -> list[tuple[str, NDArray]]:
    """Return (name, array) pairs as ``NDArrayIter`` keeps them; scripts call it to replace them.

    Args:
        data: an array, a list of arrays or arrays by name; None for none.
        allow_empty: accept None and an empty list.
        default_name: name of an unnamed array.

    Raises:
        UsageError: nothing is given. TypeError: something other than arrays is given.
    """
    if data is None or (isinstance(data, list) and not data):
        if not allow_empty:
            raise UsageError(f"{default_name} has no arrays; give one at least")
        return []
    return _named_arrays(data, default_name)


def _named_arrays(source: Any, default_name: str) -> list[tuple[str, NDArray]]:
    if isinstance(source, (np.ndarray, NDArray)) or is_scipy_csr(source):
        source = [source]
    if isinstance(source, (list, tuple)):
        names = (
            [default_name]
            if len(source) == 1
            else [f"_{position}_{default_name}" for position in range(len(source))]
        )
        source = dict(zip(names, source, strict=True))
    if not isinstance(source, Mapping):
        raise WrongType(
            f"{default_name} is {type(source).__name__}; expected an NDArray, a numpy.ndarray, "
            "a list of them or a dict with them as values"
        )
    # As in MXNet the arrays of a batch are in the order of their names.
    return [(name, _as_ndarray(name, values)) for name, values in sorted(source.items())]


def _as_ndarray(name: str, values: Any) -> NDArray:
    if isinstance(values, NDArray):
        return values
    try:
        return array(values)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name!r} is {type(values).__name__} and makes no array ({error}); expected an "
            "NDArray, a numpy.ndarray or nested lists of numbers"
        ) from error
