"""The local key-value store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import core as mx
from core.errors import UsageError


def test_values_pushed_by_devices_are_summed() -> None:
    store = mx.kv.create("local")
    store.init("w", mx.nd.ones((2, 3)))
    store.push("w", [mx.nd.ones((2, 3)), 2 * mx.nd.ones((2, 3))])
    out = [mx.nd.zeros((2, 3)), mx.nd.zeros((2, 3))]
    store.pull("w", out)
    for one in out:
        np.testing.assert_array_equal(one.asnumpy(), 3)


def test_pushed_arrays_are_not_changed() -> None:
    store = mx.kv.create("device")
    store.init(3, mx.nd.zeros((2,)))
    values = [mx.nd.ones((2,)), mx.nd.ones((2,))]
    store.push(3, values)
    assert all(one.asnumpy().tolist() == [1, 1] for one in values)


def test_pushpull_returns_the_sum() -> None:
    store = mx.kv.create()
    store.init("g", mx.nd.zeros((2,)))
    grads = [mx.nd.ones((2,)), 3 * mx.nd.ones((2,))]
    store.pushpull("g", grads)
    assert [one.asnumpy().tolist() for one in grads] == [[4, 4], [4, 4]]


def test_keys_may_be_lists() -> None:
    store = mx.kv.create()
    store.init(["a", "b"], [mx.nd.zeros((1,)), mx.nd.ones((1,))])
    out = [mx.nd.zeros((1,)), mx.nd.zeros((1,))]
    store.pull(["a", "b"], out)
    assert [one.asscalar() for one in out] == [0, 1]


def test_the_optimizer_updates_the_stored_value(tmp_path: Path) -> None:
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
        (lambda s: mx.kv.create("dist_sync"), r"store for several machines"),
    ],
)
def test_invalid_calls_are_refused(call: object, words: str) -> None:
    store = mx.kv.create()
    store.init("w", mx.nd.ones((1,)))
    with pytest.raises(ValueError, match=words):
        call(store)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"type": "1bit"}, "expected '2bit'"),
        ({"threshold": 0.5}, "type is None"),
        ({"type": "2bit", "threshold": 0}, "expected one above 0"),
        ({"type": "2bit", "treshold": 1}, "did you mean 'threshold'"),
    ],
)
def test_invalid_compression_parameters_are_refused(params: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        mx.kv.create("device").set_gradient_compression(params)


def test_local_stores_refuse_compression() -> None:
    with pytest.raises(UsageError, match="not supported for a 'local'"):
        mx.kv.create("local").set_gradient_compression({"type": "2bit"})


def test_compression_needs_dense_float32() -> None:
    store = mx.kv.create("device")
    store.set_gradient_compression({"type": "2bit"})
    store.init("w", mx.nd.zeros((2,), dtype="float64"))
    with pytest.raises(UsageError, match="only dense float32"):
        store.push("w", mx.nd.zeros((2,), dtype="float64"))


def test_pull_skips_sparse_arrays_by_default() -> None:
    store = mx.kv.create()
    store.init("w", mx.nd.ones((2, 2)).tostype("row_sparse"))
    sparse, dense = mx.nd.sparse.zeros("row_sparse", (2, 2)), mx.nd.zeros((2, 2))
    store.pull("w", [sparse, dense])
    assert sparse.asnumpy().sum() == 0
    assert dense.asnumpy().sum() == 4
    store.pull("w", sparse, ignore_sparse=False)
    assert sparse.asnumpy().sum() == 4


def test_row_ids_are_given_per_array_or_for_all() -> None:
    store = mx.kv.create()
    store.init(["v", "w"], [mx.nd.ones((3, 1)).tostype("row_sparse")] * 2)
    out = [mx.nd.sparse.zeros("row_sparse", (3, 1)) for _ in range(2)]
    rows = [mx.nd.array([0], dtype="int64"), mx.nd.array([1, 2], dtype="int64")]
    store.row_sparse_pull("v", out, row_ids=rows)
    assert [one.asnumpy().ravel().tolist() for one in out] == [[1, 0, 0], [0, 1, 1]]
    store.row_sparse_pull("v", out, row_ids=rows[0])
    assert [one.asnumpy().ravel().tolist() for one in out] == [[1, 0, 0]] * 2
    store.row_sparse_pull(["v", "w"], [[out[0]], [out[1]]], row_ids=[[rows[0]], [rows[1]]])
    assert [one.asnumpy().ravel().tolist() for one in out] == [[1, 0, 0], [0, 1, 1]]
    store.row_sparse_pull(["v", "v"], [[out[0]], [out[1]]], row_ids=[[rows[1]], [rows[0]]])
    assert [one.asnumpy().ravel().tolist() for one in out] == [[0, 1, 1], [1, 0, 0]]
    with pytest.raises(UsageError, match="3 row_ids for 2"):
        store.row_sparse_pull("v", out, row_ids=[*rows, rows[0]])
    with pytest.raises(UsageError, match="both must be row_sparse"):
        store.row_sparse_pull("v", mx.nd.zeros((3, 1)), row_ids=rows[0])
    with pytest.raises(UsageError, match="row_ids is None"):
        store.row_sparse_pull("v", out)


def test_keys_must_all_be_of_one_type() -> None:
    store = mx.kv.create()
    store.init(3, mx.nd.ones((1,)))
    with pytest.raises(UsageError, match="inconsistent types of keys"):
        store.init("a", mx.nd.ones((1,)))
    with pytest.raises(UsageError, match="unexpected type for keys"):
        store.init(1.5, mx.nd.ones((1,)))
    with pytest.raises(UsageError, match="1 values for 2 keys"):
        store.push([3, 3], [mx.nd.ones((1,))])


def test_a_custom_updater_is_called_for_each_push() -> None:
    store = mx.kv.create("LOCAL")
    seen = []

    def update(key: object, received: mx.nd.NDArray, stored: mx.nd.NDArray) -> None:
        seen.append(key)
        stored += received * 2

    store._set_updater(update)
    store.init([5, 7], [mx.nd.zeros((1,))] * 2)
    store.push([5, 7, 5], [[mx.nd.ones((1,))] * 4] * 3)
    out = [mx.nd.zeros((1,)), mx.nd.zeros((1,))]
    store.pull([5, 7], out)
    assert seen == [5, 7, 5]
    assert [one.asscalar() for one in out] == [16, 8]


def test_custom_stores_can_be_registered() -> None:
    store = mx.kv.create("TestStore")
    assert (store.type, store.rank, store.num_workers) == ("teststore", 0, 1)
    assert not store.is_capable("optimizer")
    arrays = [mx.nd.ones((1,)), 2 * mx.nd.ones((1,))]
    store.pushpull("w", arrays)
    assert [one.asscalar() for one in arrays] == [3, 3]
    store.broadcast("w", mx.nd.zeros((1,)), arrays)
    assert [one.asscalar() for one in arrays] == [0, 0]

    class Other(mx.kv.KVStoreBase):
        pass

    try:
        mx.kv.KVStoreBase.register(Other)
        assert isinstance(mx.kv.create("other"), Other)
        with pytest.warns(UserWarning, match="overriding existing"):
            mx.kv.KVStoreBase.register(Other)
    finally:
        del mx.kv.KVStoreBase.kv_registry["other"]
    with pytest.raises(ValueError, match="Unknown capability"):
        mx.kv.create().is_capable("flight")
    with pytest.raises(TypeError, match="must be a string"):
        mx.kv.create(3)


def test_capabilities_are_known_without_an_instance() -> None:
    assert mx.kv.KVStore.is_capable("optimizer")
    assert not mx.kv.base.TestStore.is_capable("optimizer")
    with pytest.raises(ValueError, match="Unknown capability: x"):
        mx.kv.base.TestStore.is_capable("x")
