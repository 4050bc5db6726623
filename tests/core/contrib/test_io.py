"""``mx.contrib.io``: Gluon data loaders as module iterators."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.contrib.io import DataLoaderIter


def test_a_module_is_trained_with_a_loader() -> None:
    inputs = np.arange(20, dtype="float64").reshape(10, 2) / 20
    labels = (np.arange(10) > 4).astype("int32")
    dataset = mx.gluon.data.ArrayDataset(inputs, labels)
    batches = DataLoaderIter(mx.gluon.data.DataLoader(dataset, 4), label_name="y_label")
    assert batches.provide_data == [("data", (4, 2))]
    assert batches.provide_label == [("y_label", (4,))]
    for _ in range(2):
        found = list(batches)
        batches.reset()
        assert [batch.pad for batch in found] == [0, 0, 2]
        data = np.concatenate([batch.data[0].asnumpy() for batch in found])
        label = np.concatenate([batch.label[0].asnumpy() for batch in found])
        assert data.dtype == label.dtype == np.float32
        np.testing.assert_array_equal(data[:10], inputs.astype("float32"))
        np.testing.assert_array_equal(label[:10], labels)
        np.testing.assert_array_equal(data[10:], 0)
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2)
    module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="y"), label_names=("y_label",))
    module.fit(batches, num_epoch=2, initializer=mx.init.One())
    assert module.predict(batches).shape == (10, 2)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_batches_have_the_dtype_asked_for(dtype: str) -> None:
    pairs = [(mx.nd.ones((2, 3)), mx.nd.ones(2)), (mx.nd.ones((1, 3)), mx.nd.ones(1))]
    batches = mx.contrib.io.DataLoaderIter(pairs, dtype=dtype)
    assert {
        np.dtype(array.dtype) for batch in batches for array in (*batch.data, *batch.label)
    } == {np.dtype(dtype)}
