"""The local key-value store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import core as mx


def test_pushed_values_of_devices_are_summed() -> None:
    store = mx.kv.create("local")
    store.init("w", mx.nd.ones((2, 3)))
    store.push("w", [mx.nd.ones((2, 3)), 2 * mx.nd.ones((2, 3))])
    out = [mx.nd.zeros((2, 3)), mx.nd.zeros((2, 3))]
    store.pull("w", out)
    for one in out:
        np.testing.assert_array_equal(one.asnumpy(), 3)


def test_pushing_does_not_change_what_was_pushed() -> None:
    store = mx.kv.create("device")
    store.init(3, mx.nd.zeros((2,)))
    values = [mx.nd.ones((2,)), mx.nd.ones((2,))]
    store.push(3, values)
    assert all(one.asnumpy().tolist() == [1, 1] for one in values)


def test_pushpull_gives_the_sum_back() -> None:
    store = mx.kv.create()
    store.init("g", mx.nd.zeros((2,)))
    grads = [mx.nd.ones((2,)), 3 * mx.nd.ones((2,))]
    store.pushpull("g", grads)
    assert [one.asnumpy().tolist() for one in grads] == [[4, 4], [4, 4]]


def test_lists_of_keys() -> None:
    store = mx.kv.create()
    store.init(["a", "b"], [mx.nd.zeros((1,)), mx.nd.ones((1,))])
    out = [mx.nd.zeros((1,)), mx.nd.zeros((1,))]
    store.pull(["a", "b"], out)
    assert [one.asscalar() for one in out] == [0, 1]


def test_optimizer_updates_what_is_stored(tmp_path: Path) -> None:
    store = mx.kv.create()
    store.init("w", mx.nd.ones((2,)))
    store.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.5, momentum=0.5))
    out = mx.nd.zeros((2,))
    store.pushpull("w", mx.nd.ones((2,)), out=out)
    assert out.asnumpy().tolist() == [0.5, 0.5]
    store.save_optimizer_states(str(tmp_path / "s"))
    store.pushpull("w", mx.nd.ones((2,)), out=out)
    second = out.asnumpy().tolist()
    other = mx.kv.create()
    other.init("w", mx.nd.array([0.5, 0.5]))
    other.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.5, momentum=0.5))
    other.load_optimizer_states(str(tmp_path / "s"))
    other.pushpull("w", mx.nd.ones((2,)), out=out)
    assert out.asnumpy().tolist() == second


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: s.push("x", mx.nd.ones((1,))), "'x' is not initialized; call init"),
        (lambda s: s.init("w", mx.nd.ones((1,))), "'w' is initialized already"),
        (lambda s: s.save_optimizer_states("f"), "call set_optimizer first"),
        (lambda s: mx.kv.create("locl"), "did you mean 'local'"),
        (lambda s: mx.kv.create("dist_sync"), r"modserve\[cluster\]"),
    ],
)
def test_errors(call: object, words: str) -> None:
    store = mx.kv.create()
    store.init("w", mx.nd.ones((1,)))
    with pytest.raises(ValueError, match=words):
        call(store)  # type: ignore[operator]
