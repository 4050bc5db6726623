"""Threads that make batches side by side."""

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
    """What ``WorkerPool`` is, with threads: nothing is copied, and Python runs one at a time.

    Args:
        count: how many.
        dataset: the examples.
        batchify: makes a batch of a list of them.
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
        """Ask for the batch of some indices; random numbers are those of the whole process."""
        return self._threads.submit(_batch, self._dataset, self._batchify, samples)

    def result(self, batch: Future[Any], timeout: float) -> Any:
        """Wait for a batch; errors are as of ``WorkerPool``."""
        try:
            return batch.result(timeout)
        except FutureTimeout:
            if batch.done():
                raise
            raise multiprocessing.TimeoutError(
                f"a thread of the DataLoader has not made its batch within {timeout} s; give a "
                "greater timeout where transformations take long"
            ) from None

    def forget(self, batches: Sequence[Future[Any]]) -> None:
        """Make no batches that nobody waits for."""
        for batch in batches:
            batch.cancel()

    def close(self) -> None:
        """End the threads, each when its batch is made."""
        self._closing()


def _batch(dataset: Any, batchify: Callable[[Sequence[Any]], Any], samples: Sequence[Any]) -> Any:
    return batchify([dataset[index] for index in samples])
