"""Stochastic variance-reduced gradients against MXNet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.contrib.svrg_optimization.svrg_module import SVRGModule
from core.contrib.svrg_optimization.svrg_optimizer import _SVRGOptimizer
from core.errors import UsageError
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.svrg import CASES, train

pytestmark = pytest.mark.filterwarnings("ignore:Parameters already initialized")


@pytest.mark.parametrize("case_id", CASES)
def test_training_matches_mxnet(case_id: str) -> None:
    golden = golden_file.topic("svrg")
    got = train(mx, case_id)
    assert len(got) == sum(key.startswith(f"{case_id}/") for key in golden)
    for key, array in got.items():
        # Terms of a full gradient, a sum over batches, may cancel.
        assert_close(f"{case_id} {key}", array, golden[f"{case_id}/{key}"], 3e-5)


def test_updating_in_the_store_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    golden = golden_file.topic("svrg")
    monkeypatch.setitem(CASES, "updating", {"devices": 2, "update_on_kvstore": "1"})
    for key, array in train(mx, "updating").items():
        assert_close(key, array, golden[f"two_devices_store/{key}"])


def _regression(**options: Any) -> tuple[SVRGModule, mx.io.NDArrayIter]:
    random = np.random.RandomState(0)
    data = random.normal(size=(30, 2)).astype("float32")
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fully0")
    net = mx.sym.LinearRegressionOutput(net, mx.sym.Variable("label"))
    module = SVRGModule(net, ["data"], ["label"], update_freq=2, **options)
    batches = mx.io.NDArrayIter(data, data @ [1.0, 2.0] + 3.0, 10, label_name="label")
    return module, batches


@pytest.mark.parametrize("devices", [1, 2])
def test_parameter_names_may_contain_full(devices: int) -> None:
    module, batches = _regression(context=[mx.cpu(number) for number in range(devices)])
    module.fit(batches, eval_metric="mse", num_epoch=60, optimizer_params={"learning_rate": 0.1})
    weights = module.get_params()[0]["fully0_weight"].asnumpy()
    # Training approaches the weights that the labels were computed with.
    np.testing.assert_allclose(weights, [[1.0, 2.0]], atol=1e-3)


def test_fixed_parameters_do_not_change() -> None:
    module, batches = _regression(fixed_param_names=["fully0_bias"])
    module.fit(batches, eval_metric="mse", num_epoch=2, initializer=mx.init.One())
    arguments, _ = module.get_params()
    assert arguments["fully0_bias"].asnumpy() == 0
    assert (arguments["fully0_weight"].asnumpy() != 1).all()


def test_batch_sizes_may_differ() -> None:
    module, batches = _regression()
    module.fit(batches, eval_metric="mse", num_epoch=1)
    small = mx.io.DataBatch([mx.nd.ones((4, 2))], [mx.nd.ones((4,))])
    module.forward_backward(small)
    module.update()
    assert module.get_outputs()[0].shape == (4, 1)
    module.forward(small, is_train=False)
    assert module.score(batches, "mse")[0][1] > 0


def test_invalid_arguments_are_refused() -> None:
    net = mx.sym.Variable("data")
    for wrong, error in ((0, ValueError), ("2", TypeError), (None, TypeError)):
        with pytest.raises(error, match="update_freq"):
            SVRGModule(net, label_names=None, update_freq=wrong)
    module, batches = _regression()
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params()
    module.init_optimizer()
    with pytest.raises(UsageError, match="call update_full_grads"):
        module.forward(next(batches))


def test_the_optimizer_run_by_a_store() -> None:
    optimizer = _SVRGOptimizer(
        "sgd", param_idx2name={0: "w", 1: "w_full"}, learning_rate=0.5, momentum=0.9
    )
    assert (optimizer.lr, optimizer.default_opt.momentum) == (0.5, 0.9)
    updater = mx.optimizer.get_updater(optimizer)
    weights = [mx.nd.ones((2,)), mx.nd.ones((2,))]
    for index, weight in enumerate(weights):
        updater(index, mx.nd.full((2,), 4.0), weight)
    assert [weight.asnumpy().tolist() for weight in weights] == [[-1, -1], [4, 4]]
