"""The executor group, optimizer and store of modules, and monitors that can be removed."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.errors import StageError


class Watcher:
    """Records what executors compute, like a monitor."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, tuple[int, ...]]] = []

    def install(self, executor: mx.executor.Executor) -> None:
        executor.set_monitor_callback(lambda name, value: self.seen.append((name, value.shape)))


def network() -> mx.sym.Symbol:
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def batch(rows: int, key: int | None = None) -> mx.io.DataBatch:
    data, label = mx.nd.array(np.ones((rows, 3))), mx.nd.zeros((rows,))
    return mx.io.DataBatch(
        [data],
        [label],
        bucket_key=key,
        provide_data=[mx.io.DataDesc("data", data.shape)],
        provide_label=[mx.io.DataDesc("softmax_label", label.shape)],
    )


def bound(module: mx.mod.Module | mx.mod.BucketingModule) -> None:
    first = batch(4)
    module.bind(first.provide_data, first.provide_label)
    module.init_params(mx.init.One())


def test_attributes_give_the_parts_in_use() -> None:
    module = mx.mod.Module(network())
    assert module.optimizer is None
    with pytest.raises(StageError, match="executor_group needs a module that is BOUND"):
        _ = module.executor_group
    bound(module)
    module.init_optimizer(kvstore="local", optimizer="adam")
    assert isinstance(module.optimizer, mx.optimizer.Adam)
    assert module.kvstore is None
    (executor,) = module.executor_group.execs
    assert executor.arg_dict["data"].shape == (4, 3)


def test_the_default_bucket_holds_the_optimizer() -> None:
    module = mx.mod.BucketingModule(lambda key: (network(), ["data"], ["softmax_label"]), 4)
    with pytest.raises(StageError, match="default_module needs a module that is BOUND"):
        _ = module.default_module
    bound(module)
    module.init_optimizer(optimizer="sgd")
    module.forward(batch(2, key=2), is_train=False)
    assert module.default_module.executor_group.batch_size == 4
    assert isinstance(module.default_module.optimizer, mx.optimizer.SGD)


@pytest.mark.parametrize("is_bucketing", [False, True])
def test_a_monitor_covers_all_shapes_until_removed(is_bucketing: bool) -> None:
    module = (
        mx.mod.BucketingModule(lambda key: (network(), ["data"], ["softmax_label"]), 4)
        if is_bucketing
        else mx.mod.Module(network())
    )
    bound(module)
    module.forward(batch(2, key=2), is_train=False)
    module.forward(batch(4, key=4), is_train=False)
    watcher = Watcher()
    module.install_monitor(watcher)
    for rows in (4, 2, 3):  # the bound shape, the one cached before, and a new one
        module.forward(batch(rows, key=rows), is_train=False)
    outputs = [shape for name, shape in watcher.seen if name == "fc_output"]
    assert outputs == [(4, 2), (2, 2), (3, 2)]
    module.remove_monitor()
    for rows in (3, 2, 4, 5):
        module.forward(batch(rows, key=rows), is_train=False)
    assert len(watcher.seen) == 3 * 2


def test_extra_labels_are_cut_to_the_batch() -> None:
    """The last batch has two rows and four labels; the values are MXNet 1.9.1's."""
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1, name="fc")
    module = mx.mod.Module(mx.sym.LinearRegressionOutput(net, name="softmax"))
    rows = np.arange(10, dtype=np.float32).reshape(5, 2)
    batches = mx.io.NDArrayIter(rows, np.arange(7), 2)
    options = {"learning_rate": 0.01}
    module.fit(
        batches,
        num_epoch=2,
        eval_metric="mse",
        initializer=mx.init.One(),
        optimizer_params=options,
    )
    parameters = module.get_params()[0]
    weight, bias = parameters["fc_weight"].asnumpy(), parameters["fc_bias"].asnumpy()
    np.testing.assert_allclose(weight, [[0.31081846, 0.2188752]], rtol=1e-5)
    np.testing.assert_allclose(bias, [-0.09194326], rtol=1e-5)
    np.testing.assert_allclose(module.score(batches, "mse")[0][1], 4.013986, rtol=1e-5)
