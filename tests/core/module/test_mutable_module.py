"""Modules that take any input shape, and detectors that fix parameters by parts of their names."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

import core as mx
from core.errors import ShapeError


def _network() -> mx.sym.Symbol:
    x = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=2, name="conv1")
    x = mx.sym.Convolution(x, kernel=(1, 1), num_filter=2, name="conv2")
    x = mx.sym.Pooling(x, global_pool=True, kernel=(1, 1), pool_type="avg")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=2, name="cls_conv1_score")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def _batch(height: int, width: int, rows: int = 2) -> mx.io.DataBatch:
    data = np.random.RandomState(height * width).normal(size=(rows, 1, height, width))
    return mx.io.DataBatch(
        [mx.nd.array(data)],
        [mx.nd.zeros((rows,))],
        provide_data=[("data", (rows, 1, height, width))],
        provide_label=[("softmax_label", (rows,))],
    )


def _ready(**options: object) -> mx.mod.MutableModule:
    module = mx.mod.MutableModule(_network(), ["data"], ["softmax_label"], **options)
    first = _batch(6, 6)
    module.bind(first.provide_data, first.provide_label)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer_params={"learning_rate": 0.1})
    return module


def _bytes(module: mx.mod.Module) -> int:
    return module._exec_group.execs[0].memory_report().arena


def test_smaller_shapes_reuse_the_memory_of_the_largest() -> None:
    module = _ready(max_data_shapes=[("data", (2, 1, 16, 16))])
    assert module.data_shapes[0].shape == (2, 1, 16, 16)
    module.forward_backward(_batch(16, 16))
    largest = _bytes(module)
    held = module._exec_group.shared_data_arrays[0]["data"]
    for height, width in ((8, 12), (5, 5), (16, 9)):
        module.forward_backward(_batch(height, width))
        module.update()
        assert module.data_shapes[0].shape == (2, 1, height, width)
        assert module.get_outputs()[0].shape == (2, 2)
        assert _bytes(module) == largest
        bound = module._exec_group.execs[0].arg_dict["data"]
        assert np.shares_memory(bound.dense(), held.dense())


def test_a_larger_shape_grows_the_memory() -> None:
    module = _ready(max_data_shapes=[("data", (2, 1, 8, 8))])
    module.forward_backward(_batch(8, 8))
    before = _bytes(module)
    module.forward_backward(_batch(20, 20))
    assert _bytes(module) > before
    assert module.data_shapes[0].shape == (2, 1, 20, 20)


def test_each_shape_gives_the_results_of_a_module_of_that_shape() -> None:
    module = _ready(max_data_shapes=[("data", (2, 1, 12, 12))])
    for height, width in ((12, 12), (6, 7), (12, 12)):
        batch = _batch(height, width)
        module.forward(batch, is_train=False)
        fixed = mx.mod.Module(_network())
        fixed.bind(batch.provide_data, batch.provide_label, for_training=False)
        fixed.set_params(*module.get_params())
        fixed.forward(batch)
        np.testing.assert_allclose(
            module.get_outputs()[0].asnumpy(), fixed.get_outputs()[0].asnumpy(), rtol=1e-5
        )


def test_parameters_survive_rebinding() -> None:
    module = _ready()
    before = {name: one.asnumpy() for name, one in module.get_params()[0].items()}
    module.bind([("data", (1, 1, 9, 9))], for_training=False, force_rebind=True)
    for name, one in module.get_params()[0].items():
        np.testing.assert_array_equal(one.asnumpy(), before[name])
    with pytest.raises(ValueError, match="not supported"):
        module.bind([("data", (1, 1, 9, 9))], force_rebind=True, shared_module=_ready())


def test_fixed_parameters_are_matched_by_parts_of_their_names() -> None:
    module = _ready(fixed_param_prefix=["conv1"])
    before = {name: one.asnumpy() for name, one in module.get_params()[0].items()}
    module.forward_backward(_batch(6, 6))
    module.update()
    moved = {
        name
        for name, one in module.get_params()[0].items()
        if not np.array_equal(one.asnumpy(), before[name])
    }
    assert moved == {"conv2_weight", "conv2_bias"}


def test_detection_module_takes_lists_of_batches(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        module = mx.mod.DetModule(
            _network(),
            ["data"],
            ["softmax_label"],
            context=[mx.cpu(0), mx.cpu(1)],
            fixed_param=["conv"],
            excluded_param=["cls", "bias"],
        )
    assert module._fixed_param_names == ["conv1_weight", "conv2_weight"]
    assert "conv2_weight" in caplog.text
    module.bind([("data", (4, 1, 6, 6))], [("softmax_label", (4,))])
    module.init_params(mx.init.Xavier())
    module.init_optimizer()
    module.forward_backward([_batch(8, 8), _batch(8, 8)])
    module.update()
    assert module.get_outputs()[0].shape == (4, 2)
    metric = mx.metric.create("acc")
    module.update_metric(metric, [[mx.nd.zeros((2,))], [mx.nd.zeros((2,))]], pre_sliced=True)
    assert metric.num_inst == 4
    with pytest.raises(ShapeError, match="same shapes"):
        module.forward([_batch(8, 8), _batch(8, 6)])
    with pytest.raises(ShapeError, match="empty"):
        module.forward([])


def test_detection_module_prepares_the_next_batch_before_updating_the_metric() -> None:
    order: list[str] = []

    class Recorded(mx.mod.DetectionModule):
        def prepare(self, *args: object, **kwargs: object) -> None:
            order.append("prepare")
            super().prepare(*args, **kwargs)

        def update_metric(self, *args: object, **kwargs: object) -> None:
            order.append("metric")
            super().update_metric(*args, **kwargs)

    module = Recorded(_network(), ["data"], ["softmax_label"])
    data = np.random.RandomState(0).normal(size=(6, 1, 6, 6)).astype("float32")
    labels = np.array([0, 1, 1, 0, 1, 1], "float32")
    metric = mx.metric.create("acc")
    batches = mx.io.NDArrayIter(data, labels, 2)
    module.fit(batches, eval_metric=metric, num_epoch=1, optimizer_params={"learning_rate": 0.0})
    assert order == ["prepare", "metric", "prepare", "metric", "metric"]
    assert metric.get() == pytest.approx(module.score(batches, "acc")[0])


def test_detection_module_fits_profiles_and_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumped = []
    monkeypatch.setattr("core.module.detection_module.profiler.dump", lambda: dumped.append(1))
    data = np.random.RandomState(0).normal(size=(24, 1, 6, 6)).astype("float32")
    batches = mx.io.NDArrayIter(data, np.zeros(24, "float32"), 2)
    module = mx.mod.DetectionModule(_network(), ["data"], ["softmax_label"])
    seen = []
    module.fit(batches, num_epoch=1, profile=True, batch_end_callback=seen.append)
    assert len(seen) == 12
    assert dumped == [1]
    prefix = str(tmp_path / "det")
    module.save_checkpoint(prefix, 3, save_optimizer_states=True)
    loaded = mx.mod.DetectionModule.load(
        prefix, 3, True, data_names=["data"], label_names=["softmax_label"]
    )
    loaded.bind(batches.provide_data, batches.provide_label)
    loaded.init_optimizer()
    for name, one in loaded.get_params()[0].items():
        np.testing.assert_array_equal(one.asnumpy(), module.get_params()[0][name].asnumpy())
