"""Threads that make batches in parallel."""

from __future__ import annotations

import multiprocessing
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from ...ndarray.np_shape import is_np_shape, set_np_shape

__all__ = ["ThreadPool"]


class ThreadPool:
    """Like ``WorkerPool``, with threads: nothing is copied, but Python runs only one at a time.

    Args:
        count: number of threads.
        dataset: the examples.
        batchify: makes a batch from a list of them.
    """

    def __init__(self, count: int, dataset: Any, batchify: Callable[[Sequence[Any]], Any]) -> None:
        self._dataset = dataset
        self._batchify = batchify
        self._threads = ThreadPoolExecutor(
            count, "DataLoader", initializer=set_np_shape, initargs=(is_np_shape(),)
        )
        self._closing = weakref.finalize(
            self, self._threads.shutdown, wait=False, cancel_futures=True
        )

    def submit(self, samples: Sequence[Any], seed: int) -> Future[Any]:
        """Request the batch of these indices; threads share the process's random generators."""
        return self._threads.submit(_batch, self._dataset, self._batchify, samples)

    def result(self, batch: Future[Any], timeout: float) -> Any:
        """Wait for a batch; errors are as for ``WorkerPool``."""
        try:
            return batch.result(timeout)
        except FutureTimeout:
            if batch.done():
                raise  # the dataset's own TimeoutError
            raise multiprocessing.TimeoutError(
                f"a thread of the DataLoader has not made its batch within {timeout} s; give a "
                "greater timeout if transformations take long"
            ) from None

    def forget(self, batches: Sequence[Future[Any]]) -> None:
        """Cancel batches that are no longer needed."""
        for batch in batches:
            batch.cancel()

    def close(self) -> None:
        """End the threads, each after its current batch."""
        self._closing()


def _batch(dataset: Any, batchify: Callable[[Sequence[Any]], Any], samples: Sequence[Any]) -> Any:
    return batchify([dataset[index] for index in samples])
