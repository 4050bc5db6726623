"""Datasets, which are sequences of examples, and datasets derived from others."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ...errors import UsageError
from ...ndarray import NDArray
from ...recordio import MXIndexedRecordIO
from .sampler import FilterSampler, Sampler, SequentialSampler

__all__ = ["ArrayDataset", "Dataset", "RecordFileDataset", "SimpleDataset"]


class Dataset:
    """Base of datasets: ``len(dataset)`` examples, each ``dataset[i]``."""

    def __getitem__(self, idx: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__")

    def filter(self, fn: Callable[[Any], Any]) -> Dataset:
        """Return the examples for which a function returns true; it is called for all of them
        now."""
        return _SampledDataset(self, FilterSampler(fn, self))

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Return one of ``num_shards`` parts that differ by at most one example in length.

        Raises:
            UsageError: there is no part with this index.
        """
        if not 0 <= index < num_shards:
            raise UsageError(f"shard {index} is not among {num_shards}; they are numbered from 0")
        length, rest = divmod(len(self), num_shards)
        start = length * index + min(index, rest)
        return _SampledDataset(self, SequentialSampler(length + (index < rest), start))

    def take(self, count: int | None) -> Dataset:
        """Return the first ``count`` examples; all if it is None or too large."""
        length = len(self)
        taken = length if count is None else min(length, count)
        return _SampledDataset(self, SequentialSampler(taken))

    def sample(self, sampler: Sampler) -> Dataset:
        """Return the examples selected by a sampler, in its order; it is iterated now.

        Raises:
            TypeError: it is not a ``Sampler``.
        """
        if not isinstance(sampler, Sampler):
            raise TypeError(
                f"Invalid sampler type: {type(sampler)}. Expected gluon.data.Sampler instead."
            )
        return _SampledDataset(self, sampler)

    def transform(self, fn: Callable[..., Any], lazy: bool = True) -> Dataset:
        """Return a dataset of the examples transformed by a function.

        Args:
            fn: called with an example, or with the elements of a tuple.
            lazy: call it at each access of an example; otherwise once for all examples, now.
        """
        transformed = _TransformedDataset(self, fn)
        return transformed if lazy else SimpleDataset(list(_examples(transformed)))

    def transform_first(self, fn: Callable[[Any], Any], lazy: bool = True) -> Dataset:
        """Transform only the first element of each example; see ``transform``."""
        return self.transform(_OnFirst(fn), lazy)


class SimpleDataset(Dataset):
    """The elements of a list, an array or anything else with ``len`` and ``[]``."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: Any) -> Any:
        return self._data[idx]


class ArrayDataset(Dataset):
    """Tuples of one element from each of several arrays, lists or datasets; for a single one, its
    elements.

    Raises:
        UsageError: there are no arguments, or their lengths differ.
    """

    def __init__(self, *args: Any) -> None:
        if not args:
            raise UsageError("ArrayDataset needs at least one array")
        self._length = len(args[0])
        for place, data in enumerate(args):
            if len(data) != self._length:
                raise UsageError(
                    f"All arrays must have the same length; array[0] has length {self._length} "
                    f"while array[{place}] has {len(data)}."
                )
        # As in MXNet, so that labels are numbers instead of arrays of one element.
        self._data = [
            data.asnumpy() if isinstance(data, NDArray) and data.ndim == 1 else data
            for data in args
        ]

    def __getitem__(self, idx: Any) -> Any:
        if len(self._data) == 1:
            return self._data[0][idx]
        return tuple(data[idx] for data in self._data)

    def __len__(self) -> int:
        return self._length


class RecordFileDataset(Dataset):
    """The records of a RecordIO file, as bytes.

    Every thread and every forked process opens the file separately, because they would otherwise
    share its position.

    Args:
        filename: path of the records; the index beside it has the extension ``.idx``.
    """

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.idx_file = os.path.splitext(filename)[0] + ".idx"
        self._open_files = threading.local()
        self._length = len(self._record.keys)

    @property
    def _record(self) -> MXIndexedRecordIO:
        """This thread's file."""
        found: MXIndexedRecordIO | None = getattr(self._open_files, "record", None)
        if found is None:
            found = MXIndexedRecordIO(self.idx_file, self.filename, "r")
            self._open_files.record = found
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_open_files"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _open_files=threading.local())

    def __getitem__(self, idx: Any) -> Any:
        record = self._record
        return record.read_idx(record.keys[idx])

    def __len__(self) -> int:
        return self._length


class _SampledDataset(Dataset):
    """The examples selected by a sampler."""

    def __init__(self, dataset: Dataset, sampler: Sampler) -> None:
        self._dataset = dataset
        self._sampler = sampler
        self._indices = list(sampler)

    def __len__(self) -> int:
        return len(self._sampler)

    def __getitem__(self, idx: Any) -> Any:
        return self._dataset[self._indices[idx]]


class _TransformedDataset(Dataset):
    """Examples transformed by a function at each access."""

    def __init__(self, data: Dataset, fn: Callable[..., Any]) -> None:
        self._data = data
        self._fn = fn

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: Any) -> Any:
        item = self._data[idx]
        return self._fn(*item) if isinstance(item, tuple) else self._fn(item)


class _OnFirst:
    """Applies a function to the first of several elements; a class, because closures cannot be
    pickled."""

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self._fn = fn

    def __call__(self, first: Any, *others: Any) -> Any:
        return (self._fn(first), *others) if others else self._fn(first)


def _examples(dataset: Dataset) -> Iterator[Any]:
    return (dataset[index] for index in range(len(dataset)))
