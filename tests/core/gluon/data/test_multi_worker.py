"""MXNet's iterator over the batches of a pool, as loaders of public projects use it."""

from __future__ import annotations

import multiprocessing
from multiprocessing.pool import ThreadPool
from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import UsageError
from core.gluon.data.batchify import default_batchify_fn
from core.gluon.data.multi_worker import (
    _as_in_context,
    _MultiWorkerIter,
    _worker_fn,
    _worker_initializer,
)

DATA = np.arange(10, dtype="float32").reshape(5, 2)
SAMPLER = mx.gluon.data.BatchSampler(mx.gluon.data.SequentialSampler(5), 2, "keep")


def _batches(found: Any) -> list[Any]:
    return [batch.asnumpy().tolist() for batch in found]


def test_batches_of_threads_come_in_order() -> None:
    with ThreadPool(2) as pool:
        batches = _MultiWorkerIter(
            pool, default_batchify_fn, SAMPLER, pin_memory=True, prefetch=2, dataset=DATA
        )
        assert len(batches) == 3
        first = next(batches)
        assert first.context == mx.cpu_pinned(0)
        assert [first.asnumpy().tolist(), *_batches(batches)] == [
            DATA[:2].tolist(),
            DATA[2:4].tolist(),
            DATA[4:].tolist(),
        ]


def test_batches_of_processes_are_pickled() -> None:
    with multiprocessing.get_context("fork").Pool(1, _worker_initializer, [DATA]) as pool:
        batches = _MultiWorkerIter(pool, default_batchify_fn, SAMPLER, prefetch=1)
        assert [row for batch in _batches(batches) for row in batch] == DATA.tolist()


def test_a_worker_has_its_own_data_set() -> None:
    _worker_initializer(DATA, active_shape=False)
    assert isinstance(_worker_fn([0, 3], default_batchify_fn), bytes)
    with pytest.raises(UsageError, match=r"mx\.np"):
        _worker_initializer(DATA, active_array=True)


def test_nested_batches_are_moved() -> None:
    moved = _as_in_context([mx.nd.ones(1), (mx.nd.ones(2), "name")], mx.cpu(1))
    assert moved[0].context == moved[1][0].context == mx.cpu(1)
    assert moved[1][1] == "name"
