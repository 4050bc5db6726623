"""The NumPy backend."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.backends import NumpyBackend

BEYOND = np.array([[1e300, -1e300, np.nan]])
AS_FLOAT32 = np.array([[np.inf, -np.inf, np.nan]], np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_out_of_range_values_are_copied_without_a_warning(dtype: str) -> None:
    target = np.zeros((1, 3), dtype)
    with np.errstate(all="raise"):
        NumpyBackend().copy_into(target, BEYOND)
        assert np.geterr()["over"] == "raise"
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(target, BEYOND.astype(dtype))


def test_training_on_out_of_range_values_ignores_numpys_error_state() -> None:
    symbol = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    module = mx.mod.Module(symbol, label_names=None)
    module.bind([("data", (1, 3))])
    module.init_params()
    head = mx.nd.array([[1e300, 1]], dtype="float64")
    with np.errstate(all="raise"):
        batch = mx.io.DataBatch([mx.nd.array(BEYOND, dtype="float64")])
        module.forward(batch, is_train=True)
        module.backward([head])
    executor = module._exec_group.execs[0]
    np.testing.assert_array_equal(executor.arg_dict["data"].asnumpy(), AS_FLOAT32)
    np.testing.assert_array_equal(executor.grad_dict["fc_bias"].asnumpy(), [np.inf, 1])
