"""Modules with csr data and row-sparse parameters."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.errors import UsageError

FEATURES = 30
SPARSE = ("v", "w_weight")


def _factorization_machine() -> mx.sym.Symbol:
    """The network of MXNet's example, with two factors."""
    x = mx.sym.Variable("data", stype="csr")
    init = mx.init.Normal(0.01)
    factors = mx.sym.Variable("v", shape=(FEATURES, 2), init=init, stype="row_sparse")
    weight = mx.sym.Variable("w_weight", shape=(FEATURES, 1), init=init, stype="row_sparse")
    linear = mx.sym.broadcast_add(mx.sym.dot(x, weight), mx.sym.Variable("w_bias", shape=(1,)))
    squares = mx.sym._internal._square_sum(data=factors, axis=1, keepdims=True)
    crossed = 0.5 * mx.sym.square(mx.sym.dot(x, factors))
    total = mx.sym.sum(mx.sym.Concat(linear, crossed, dim=1), axis=1, keepdims=True)
    total = total - 0.5 * mx.sym.dot(mx.sym.square(x), squares)
    return mx.sym.LinearRegressionOutput(total, mx.sym.Variable("label"))


def _data() -> mx.io.NDArrayIter:
    random = np.random.RandomState(0)
    dense = random.uniform(size=(64, FEATURES)) * (random.uniform(size=(64, FEATURES)) < 0.2)
    csr = mx.nd.array(dense).tostype("csr")
    return mx.io.NDArrayIter(csr, {"label": mx.nd.ones((64, 1))}, 16, last_batch_handle="discard")


@pytest.mark.parametrize("devices", [1, 2])
def test_factorization_machine_learns(devices: int) -> None:
    module = mx.mod.Module(
        _factorization_machine(),
        label_names=["label"],
        context=[mx.cpu(device) for device in range(devices)],
    )
    data, metric = _data(), mx.metric.create("MSE")
    module.bind(data.provide_data, data.provide_label)
    mx.random.seed(1)  # how far the loss falls depends on the initial parameters
    module.init_params()
    assert module._arg_params["v"].stype == "row_sparse"
    assert module._arg_params["v"].asnumpy().any()
    module.init_optimizer(optimizer="adam", optimizer_params={"learning_rate": 0.02})
    losses = []
    for _ in range(15):
        data.reset()
        metric.reset()
        for batch in data:
            assert batch.data[0].stype == "csr"
            if devices > 1:
                module.prepare(batch, lambda batch: dict.fromkeys(SPARSE, mx.nd.arange(FEATURES)))
            module.forward(batch, is_train=True)
            module.update_metric(metric, batch.label)
            module.backward()
            module.update()
        losses.append(metric.get()[1])
    assert losses[-1] < 0.2 * losses[0]
    assert module.get_params()[0]["v"].stype == "row_sparse"


def test_only_the_rows_a_batch_needs_are_pulled() -> None:
    contexts = [mx.cpu(0), mx.cpu(1)]
    module = mx.mod.Module(_factorization_machine(), label_names=["label"], context=contexts)
    data = _data()
    module.bind(data.provide_data, data.provide_label)
    module.init_params()
    batch = data.next()

    def rows(batch: mx.io.DataBatch) -> dict[str, mx.nd.NDArray]:
        return {"v": batch.data[0].indices}

    with pytest.warns(UserWarning, match="not updated in the KVStore"):
        module.prepare(batch, sparse_row_id_fn=rows)
    module.init_optimizer(kvstore="device")
    module.forward_backward(batch)
    module.update()
    module.prepare(batch, sparse_row_id_fn=rows)
    needed = batch.data[0].indices.asnumpy()
    for array in module._exec_group.param_arrays[module._param_names.index("v")]:
        np.testing.assert_array_equal(array.indices.asnumpy(), np.unique(needed))
        newest = module.get_params()[0]["v"].asnumpy()[array.indices.asnumpy()]
        np.testing.assert_array_equal(array.data.asnumpy(), newest)
    with pytest.warns(UserWarning, match=r"w_bias\.stype is not 'row_sparse'"):
        module.prepare(batch, sparse_row_id_fn=lambda batch: {"w_bias": None})
    with pytest.raises(UsageError, match="'u' is not a parameter"):
        module.prepare(batch, sparse_row_id_fn=lambda batch: {"u": None})
    with pytest.raises(AssertionError, match="expected a dict"):
        module.prepare(batch, sparse_row_id_fn=lambda batch: 3)


def test_pulled_rows_go_into_the_modules_own_arrays() -> None:
    module = mx.mod.Module(_factorization_machine(), label_names=["label"])
    data = _data()
    module.bind(data.provide_data, data.provide_label)
    module.init_params()
    store = mx.kv.create("local")
    module.init_optimizer(kvstore=store)
    (array,) = module._exec_group.param_arrays[module._param_names.index("v")]
    first = array.asnumpy()
    module.forward_backward(data.next())
    module.update()
    # The device sees what the store computed only after pulling it.
    np.testing.assert_array_equal(array.asnumpy(), first)
    assert (module.get_params()[0]["v"].asnumpy() != first).any()
    store.row_sparse_pull("v", [array], row_ids=mx.nd.array([3, 1, 3]))
    np.testing.assert_array_equal(array.indices.asnumpy(), [1, 3])
    expected = np.zeros_like(first)
    expected[[1, 3]] = module.get_params()[0]["v"].asnumpy()[[1, 3]]
    np.testing.assert_array_equal(array.asnumpy(), expected)
    module.set_params({"v": mx.nd.ones((FEATURES, 2))}, {}, allow_missing=True)
    np.testing.assert_array_equal(array.asnumpy(), np.ones((FEATURES, 2)))
