"""SGD where storage types and float32 master copies interact; values from MXNet 1.9.1."""

import numpy as np
import pytest

import core as mx


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(
    ("dtype", "untouched", "touched"),
    [("float16", 0.97509765625, 0.47509765625), ("float32", 1.0, 0.4750000238418579)],
)
def test_updates_are_not_lazy_with_float32_copies(
    momentum: float, dtype: str, untouched: float, touched: float
) -> None:
    """MXNet's mp_sgd_update makes a row_sparse gradient dense, so all weights decay."""
    sgd = mx.optimizer.SGD(wd=0.05, learning_rate=0.5, momentum=momentum, multi_precision=True)
    weight = mx.nd.ones((3, 2), dtype=dtype)
    rows = (np.ones((1, 2)), [1])
    gradient = mx.nd.sparse.row_sparse_array(rows, shape=(3, 2), dtype=dtype)
    state = sgd.create_state_multi_precision(0, weight)
    sgd.update_multi_precision(0, weight, gradient, state)
    np.testing.assert_allclose(weight.asnumpy()[:, 0], [untouched, touched, untouched], rtol=1e-7)


@pytest.mark.parametrize("base", [mx.optimizer.SGD, mx.optimizer.NAG, mx.optimizer.Adam])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_custom_update_gets_arrays(base: type[mx.optimizer.Optimizer], dtype: str) -> None:
    class Doubled(base):  # type: ignore[misc, valid-type]
        def update(self, index, weight, grad, state) -> None:
            assert (type(weight), type(grad)) == (mx.nd.NDArray, mx.nd.NDArray)
            super().update(index, weight, grad * 2, state)

    options = dict(learning_rate=0.5, multi_precision=True)
    updater = mx.optimizer.get_updater(Doubled(**options))
    expected = mx.optimizer.get_updater(base(**options))
    weights, others = (
        [mx.nd.ones((2,), dtype=dtype), mx.nd.ones((3,), dtype=dtype)] for _ in range(2)
    )
    gradients = [mx.nd.array([1, -2], dtype=dtype), mx.nd.array([1, 2, 3], dtype=dtype)]
    updater([0, 1], gradients, weights)
    expected([0, 1], [gradient * 2 for gradient in gradients], others)
    for weight, other in zip(weights, others, strict=True):
        np.testing.assert_array_equal(weight.asnumpy(), other.asnumpy())


def test_each_parameter_has_its_rate() -> None:
    sgd = mx.optimizer.SGD(learning_rate=0.5, wd=0.1, param_idx2name={0: "a_weight", 1: "b_bias"})
    sgd.set_lr_mult({"b_bias": 2.0})
    assert (sgd._get_lrs([0, 1]), sgd._get_wds([0, 1])) == ([0.5, 1.0], [0.1, 0.0])
