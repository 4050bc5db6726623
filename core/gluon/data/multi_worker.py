"""Batches from a pool of processes that a script has started, as MXNet's loader does it."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any

from ...context import cpu_pinned
from ...device import Context
from ...errors import UsageError
from ...ndarray import NDArray
from ...ndarray.np_shape import set_np_shape

__all__ = ["ForkingPickler", "_MultiWorkerIter", "_as_in_context", "_worker_initializer"]

_worker_dataset: Any = None
"""The data set of a worker process, which it gets when it starts."""


def _worker_initializer(
    dataset: Any, active_shape: bool = False, active_array: bool = False
) -> None:
    """Keep the data set in a worker process; for the ``initializer`` of a pool.

    Args:
        dataset: the data set.
        active_shape: whether the process is in np-shape mode.
        active_array: must be False, since ``mx.np`` has no arrays here.
    """
    global _worker_dataset
    if active_array:
        raise UsageError("active_array is True, but there are no arrays of mx.np")
    set_np_shape(active_shape)
    _worker_dataset = dataset


def _worker_fn(
    samples: Sequence[int], batchify_fn: Callable[[Any], Any], dataset: Any = None
) -> Any:
    """Return the batch of some examples, pickled if it was made in a process."""
    if dataset is not None:
        return batchify_fn([dataset[index] for index in samples])
    buffer = io.BytesIO()
    batch = batchify_fn([_worker_dataset[index] for index in samples])
    ForkingPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(batch)
    return buffer.getvalue()


def _as_in_context(data: Any, ctx: Context) -> Any:
    """Return the arrays of a batch, which may be nested lists, on a device."""
    if isinstance(data, NDArray):
        return data.as_in_context(ctx)
    if isinstance(data, (list, tuple)):
        return [_as_in_context(part, ctx) for part in data]
    return data


class _MultiWorkerIter:
    """An iterator over batches that a pool makes.

    ``DataLoader`` has a pool of its own; loaders of public projects, such as those that transform
    images anew for every batch, use this class of MXNet.

    Args:
        worker_pool: of processes or threads; has ``apply_async``.
        batchify_fn: makes a batch from a list of examples.
        batch_sampler: yields lists of indices.
        pin_memory: give batches the context ``cpu_pinned(pin_device_id)``.
        pin_device_id: see ``pin_memory``.
        worker_fn: called with indices, ``batchify_fn`` and ``dataset``; returns the pickled batch,
            or the batch itself if there is a ``dataset``.
        prefetch: number of batches requested ahead.
        dataset: the data set of threads; processes have their own.
        data_loader: kept alive as long as this iterator.
        timeout: largest number of seconds to wait for a batch.
    """

    def __init__(
        self,
        worker_pool: Any,
        batchify_fn: Callable[[Any], Any],
        batch_sampler: Any,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        worker_fn: Callable[..., Any] = _worker_fn,
        prefetch: int = 0,
        dataset: Any = None,
        data_loader: Any = None,
        timeout: float = 120,
    ) -> None:
        self._worker_pool = worker_pool
        self._batchify_fn = batchify_fn
        self._batch_sampler = batch_sampler
        self._data_buffer: dict[int, Any] = {}
        self._rcvd_idx = self._sent_idx = 0
        self._iter = iter(batch_sampler)
        self._worker_fn = worker_fn
        self._pin_memory = pin_memory
        self._pin_device_id = pin_device_id
        self._dataset = dataset
        self._data_loader = data_loader
        self._timeout = timeout
        for _ in range(prefetch):
            self._push_next()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def __iter__(self) -> _MultiWorkerIter:
        return self

    def __next__(self) -> Any:
        self._push_next()
        if self._rcvd_idx == self._sent_idx:
            raise StopIteration
        result = self._data_buffer.pop(self._rcvd_idx).get(self._timeout)
        batch = pickle.loads(result) if self._dataset is None else result
        self._rcvd_idx += 1
        return _as_in_context(batch, cpu_pinned(self._pin_device_id)) if self._pin_memory else batch

    next = __next__

    def _push_next(self) -> None:
        samples = next(self._iter, None)
        if samples is None:
            return
        self._data_buffer[self._sent_idx] = self._worker_pool.apply_async(
            self._worker_fn, (samples, self._batchify_fn, self._dataset)
        )
        self._sent_idx += 1
