"""SGD where storage types and float32 copies meet; the numbers are those of mxnet 1.9.1."""

import numpy as np
import pytest

import core as mx


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(
    ("dtype", "untouched", "touched"),
    [("float16", 0.97509765625, 0.47509765625), ("float32", 1.0, 0.4750000238418579)],
)
def test_laziness_ends_where_float32_copies_begin(
    momentum: float, dtype: str, untouched: float, touched: float
) -> None:
    """MXNet's mp_sgd_update makes a row_sparse gradient dense, so that all weights decay."""
    sgd = mx.optimizer.SGD(wd=0.05, learning_rate=0.5, momentum=momentum, multi_precision=True)
    weight = mx.nd.ones((3, 2), dtype=dtype)
    rows = (np.ones((1, 2)), [1])
    gradient = mx.nd.sparse.row_sparse_array(rows, shape=(3, 2), dtype=dtype)
    state = sgd.create_state_multi_precision(0, weight)
    sgd.update_multi_precision(0, weight, gradient, state)
    np.testing.assert_allclose(weight.asnumpy()[:, 0], [untouched, touched, untouched], rtol=1e-7)
