"""Batches of a dataset, prepared by worker processes or threads during computation."""

from __future__ import annotations

import hashlib
import pickle
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...context import cpu_pinned
from ...errors import UsageError
from ...random import get_state
from .batchify import default_batchify_fn, default_mp_batchify_fn
from .multi_worker import (
    ForkingPickler,
    _as_in_context,
    _MultiWorkerIter,
    _worker_fn,
    _worker_initializer,
)
from .sampler import BatchSampler, RandomSampler, SequentialSampler
from .thread_pool import ThreadPool
from .worker_pool import WorkerPool

__all__ = [
    "DataLoader",
    "ForkingPickler",
    "_MultiWorkerIter",
    "_as_in_context",
    "_worker_fn",
    "_worker_initializer",
    "default_batchify_fn",
    "default_mp_batchify_fn",
]


class DataLoader:
    """An iterable over batches of a dataset, which can be iterated repeatedly.

    Workers are started by the constructor, with the current state of the dataset. In worker
    processes, random numbers of a batch depend on the states of ``random``, ``numpy.random`` and
    ``mx.random`` at the start of the round, on the round's number and on the batch's number.
    Workers thus draw different numbers, and equal seeds give equal batches for any number of
    workers.

    Args:
        dataset: anything with ``len`` and ``[]``, including arrays.
        batch_size: number of examples in a batch.
        shuffle: use a new random order in each round.
        sampler: defines the order instead of ``shuffle``.
        last_batch: treatment of an incomplete batch, see ``BatchSampler``; ``"keep"`` by default.
        batch_sampler: yields lists of indices; replaces the four arguments before.
        batchify_fn: makes a batch from a list of examples; None is ``default_batchify_fn``.
        num_workers: number of processes or threads; with 0, batches are made on demand.
        pin_memory: give batches the context ``cpu_pinned(pin_device_id)``.
        pin_device_id: see ``pin_memory``.
        prefetch: number of batches requested ahead; None is twice ``num_workers``.
        thread_pool: use threads as workers, which Python runs one at a time.
        timeout: largest number of seconds that a worker may take for a batch.
        auto_reload: request the first batches of each round when the previous one ends, and those
            of the first round now.

    Raises:
        ValueError: ``batch_size`` is missing, or arguments exclude each other.
        UsageError: ``timeout`` is not positive.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        sampler: Any = None,
        last_batch: str | None = None,
        batch_sampler: Any = None,
        batchify_fn: Callable[[Sequence[Any]], Any] | None = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        prefetch: int | None = None,
        thread_pool: bool = False,
        timeout: float = 120,
        auto_reload: bool = False,
    ) -> None:
        if timeout <= 0:
            raise UsageError(f"timeout must be positive, given {timeout}")
        self._dataset = dataset
        self._batch_sampler = (
            _batch_sampler(dataset, batch_size, shuffle, sampler, last_batch)
            if batch_sampler is None
            else _given(batch_sampler, batch_size, shuffle, sampler, last_batch)
        )
        self._batchify_fn = batchify_fn or default_batchify_fn
        self._pinned = cpu_pinned(pin_device_id) if pin_memory else None
        self._num_workers = max(0, num_workers)
        self._prefetch = max(0, 2 * self._num_workers if prefetch is None else int(prefetch))
        self._timeout = timeout
        self._rounds = 0
        self._pool: WorkerPool | ThreadPool | None = None
        if self._num_workers:
            kind = ThreadPool if thread_pool else WorkerPool
            self._pool = kind(self._num_workers, dataset, self._batchify_fn)
        self.auto_reload = auto_reload
        self._iter: Iterator[Any] | None = None
        if auto_reload:
            self.refresh()

    def __iter__(self) -> Iterator[Any]:
        if self._iter is None:
            self.refresh()
        # Taken, so that a loop within a loop over the loader gets a round of its own.
        batches, self._iter = self._iter, None
        assert batches is not None
        yield from batches
        if self._iter is None and self.auto_reload:
            self.refresh()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def refresh(self) -> None:
        """Begin the next round and request its first batches."""
        self._rounds += 1
        if self._pool is None:
            self._iter = self._made_here()
        else:
            self._iter = _Round(self, self._pool, _seed_of_round(self._rounds))

    def clean(self) -> None:
        """Discard batches requested ahead; the next round begins with the next iteration."""
        self._iter = None

    def _made_here(self) -> Iterator[Any]:
        for samples in self._batch_sampler:
            yield self._placed(self._batchify_fn([self._dataset[index] for index in samples]))

    def _placed(self, batch: Any) -> Any:
        return batch if self._pinned is None else _as_in_context(batch, self._pinned)


class _Round:
    """The batches of one round in order, some of them requested ahead."""

    def __init__(self, loader: DataLoader, pool: WorkerPool | ThreadPool, seed: bytes) -> None:
        self._loader = loader
        self._pool: Any = pool
        self._seed = seed
        self._asked: deque[Any] = deque()
        self._count = 0
        self._samples = iter(loader._batch_sampler)
        for _ in range(loader._prefetch):
            self._ask()

    def __iter__(self) -> _Round:
        return self

    def __next__(self) -> Any:
        self._ask()  # before waiting, so that the workers never run out of requests
        if not self._asked:
            raise StopIteration
        batch = self._asked.popleft()
        try:
            found = self._pool.result(batch, self._loader._timeout)
        except BaseException:
            self._pool.forget([batch])
            raise
        return self._loader._placed(found)

    def __del__(self) -> None:
        self._pool.forget(self._asked)

    def _ask(self) -> None:
        samples = next(self._samples, None)
        if samples is None:
            return
        # Hashed, so that the seeds of successive batches have nothing in common.
        content = self._seed + self._count.to_bytes(8, "little")
        seed = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
        self._asked.append(self._pool.submit(samples, seed))
        self._count += 1


def _batch_sampler(
    dataset: Any, batch_size: int | None, shuffle: bool, sampler: Any, last_batch: str | None
) -> BatchSampler:
    if batch_size is None:
        raise ValueError("batch_size must be specified unless batch_sampler is specified")
    if sampler is None:
        sampler = (RandomSampler if shuffle else SequentialSampler)(len(dataset))
    elif shuffle:
        raise ValueError("shuffle must not be specified if sampler is specified")
    return BatchSampler(sampler, batch_size, last_batch or "keep")


def _given(batch_sampler: Any, *excluded: Any) -> Any:
    if any(one is not None and one is not False for one in excluded):
        raise ValueError(
            "batch_size, shuffle, sampler and last_batch must not be specified if batch_sampler "
            "is specified."
        )
    return batch_sampler


def _seed_of_round(number: int) -> bytes:
    """Return a seed derived from the states of all generators, without changing them."""
    numpy_state: Any = np.random.get_state()
    states = (random.getstate(), numpy_state[1].tobytes(), numpy_state[2], get_state(), number)
    return hashlib.blake2b(pickle.dumps(states), digest_size=16).digest()
