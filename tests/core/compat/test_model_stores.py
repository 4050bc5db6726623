"""Helpers of training loops that scripts import from ``mxnet.model``."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.model import (
    _create_kvstore,
    _create_sparse_kvstore,
    _initialize_kvstore,
    _multiple_callbacks,
    _update_params,
    _update_params_on_kvstore,
)

START = {"a": mx.nd.ones((2,)), "b": mx.nd.ones((3,))}


def _copies() -> list[list[mx.nd.NDArray]]:
    return [[START[name].copy(), START[name].copy()] for name in START]


def _grads() -> list[list[mx.nd.NDArray | None]]:
    return [[mx.nd.ones((2,)), 2 * mx.nd.ones((2,))], [None, None]]


def test_one_device_needs_no_store() -> None:
    assert _create_kvstore("local", 1, START) == (None, False)
    store, updates = _create_kvstore("device", 2, START)
    assert store.type == "device"
    assert updates
    assert _create_sparse_kvstore(store) == (store, True)
    with pytest.raises(TypeError, match="must be KVStore, str or None"):
        _create_kvstore(3, 2, START)


def test_gradients_are_pushed_to_a_store_that_updates() -> None:
    store, updates = _create_kvstore("local", 2, START)
    weights = [[0 * one for one in pair] for pair in _copies()]
    _initialize_kvstore(store, weights, START, list(START), updates)
    np.testing.assert_array_equal(weights[1][1].asnumpy(), np.ones(3))
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.1))
    _update_params_on_kvstore(weights, _grads(), store, list(START))
    for weight in weights[0]:
        np.testing.assert_allclose(weight.asnumpy(), 1 - 0.1 * 3, rtol=1e-6)
    np.testing.assert_array_equal(weights[1][0].asnumpy(), np.ones(3))


@pytest.mark.parametrize("with_store", [False, True])
def test_gradients_go_through_an_updater(with_store: bool) -> None:
    store = mx.kv.create("local") if with_store else None
    weights = _copies()
    if store is not None:
        _initialize_kvstore(store, weights, START, list(START), update_on_kvstore=False)
    indices = []
    updater = mx.optimizer.get_updater(mx.optimizer.SGD(learning_rate=0.1))

    def update(index: list[int], grads: list[mx.nd.NDArray], arrays: list[mx.nd.NDArray]) -> None:
        indices.append(index)
        updater(index, grads, arrays)

    _update_params(weights, _grads(), update, 2, kvstore=store, param_names=list(START))
    assert indices == [[0], [1]]
    steps = [3, 3] if with_store else [1, 2]
    for weight, step in zip(weights[0], steps, strict=True):
        np.testing.assert_allclose(weight.asnumpy(), 1 - 0.1 * step, rtol=1e-6)


def test_callbacks_may_be_none_one_or_a_list() -> None:
    seen: list[tuple[int, int]] = []

    def call(first: int, second: int = 0) -> None:
        seen.append((first, second))

    _multiple_callbacks(None, 1)
    _multiple_callbacks(call, 2)
    _multiple_callbacks([call, call], 3, second=4)
    assert seen == [(2, 0), (3, 4), (3, 4)]


def test_batches_are_sliced_by_work_load() -> None:
    split = mx.executor_manager._split_input_slice
    assert split(7, [1, 2]) == [slice(0, 2), slice(2, 7)]
    with pytest.raises(ValueError, match="too small"):
        split(1, [1, 1])
