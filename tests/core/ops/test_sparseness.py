"""IdentityAttachKLSparseReg in a module, and invalid input."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.errors import ShapeError


def test_the_penalty_lowers_mean_activation() -> None:
    def mean_activation(penalty: float) -> float:
        mx.random.seed(0)
        data = mx.sym.Variable("data")
        code = mx.sym.Activation(mx.sym.FullyConnected(data, num_hidden=6, name="fc"), "sigmoid")
        code = mx.sym.IdentityAttachKLSparseReg(code, name="sparse", penalty=penalty)
        net = mx.sym.LinearRegressionOutput(
            mx.sym.FullyConnected(code, num_hidden=4, name="out"), mx.sym.Variable("label")
        )
        x = np.random.RandomState(0).rand(64, 4).astype("float32")
        module = mx.mod.Module(net, label_names=["label"])
        module.fit(
            mx.io.NDArrayIter(x, x, 16, label_name="label"),
            eval_metric="mse",
            initializer=mx.init.Xavier(),
            optimizer_params={"learning_rate": 0.5},
            num_epoch=20,
        )
        return float(module.get_params()[1]["sparse_moving_avg"].asnumpy().mean())

    assert mean_activation(0.2) < 0.5 * mean_activation(0.0)


def test_the_moving_average_is_passed_by_name() -> None:
    moving = mx.nd.array([0.5, 0.5])
    data = mx.nd.array([[0.2, 0.9]])
    passed = mx.nd.IdentityAttachKLSparseReg(data, 0.3, moving_avg=moving)
    np.testing.assert_array_equal(passed.asnumpy(), data.asnumpy())
    np.testing.assert_array_equal(moving.asnumpy(), [0.5, 0.5])


def test_data_must_be_two_dimensional() -> None:
    net = mx.sym.IdentityAttachKLSparseReg(mx.sym.Variable("data"))
    with pytest.raises(ShapeError, match=r"expected \(batch, units\)"):
        net.infer_shape(data=(2, 3, 4))
