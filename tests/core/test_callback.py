"""Callbacks of fit."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import core as mx


def param(nbatch: int, metric: mx.metric.EvalMetric | None = None) -> SimpleNamespace:
    return SimpleNamespace(epoch=1, nbatch=nbatch, eval_metric=metric)


def accuracy(value: float) -> mx.metric.EvalMetric:
    metric = mx.metric.create("acc")
    metric.accumulate(value, 1)
    return metric


def test_speedometer_logs_every_so_many_batches(caplog: pytest.LogCaptureFixture) -> None:
    speed = mx.callback.Speedometer(batch_size=32, frequent=2)
    metric = accuracy(0.5)
    with caplog.at_level(logging.INFO):
        for nbatch in range(1, 5):
            speed(param(nbatch, metric))
            metric.accumulate(0.5, 1)
    lines = [record.message for record in caplog.records]
    assert len(lines) == 2
    assert "Epoch[1] Batch [0-2]" in lines[0]
    assert "accuracy=0.5" in lines[0]
    assert metric.num_inst == 1, "the metric starts anew after each line"


def test_progress_bar_and_validation_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        mx.callback.ProgressBar(total=4, length=8)(param(2))
        mx.callback.LogValidationMetricsCallback()(param(0, accuracy(1.0)))
        mx.callback.log_train_metric(1)(param(1, accuracy(0.25)))
    assert "[====----] 50%" in caplog.messages[0]
    assert caplog.messages[1] == "Epoch[1] Validation-accuracy=1.000000"
    assert caplog.messages[2] == "Iter[1] Batch[1] Train-accuracy=0.250000"


def test_checkpoints_every_second_epoch(tmp_path: Path) -> None:
    symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    module = mx.mod.Module(symbol, label_names=None)
    module.bind([("data", (1, 3))])
    module.init_params()
    plain = mx.callback.do_checkpoint(str(tmp_path / "a"), period=2)
    whole = mx.callback.module_checkpoint(module, str(tmp_path / "b"), period=2)
    for epoch in range(4):
        plain(epoch, symbol, *module.get_params())
        whole(epoch)
    assert sorted(path.name for path in tmp_path.glob("*.params")) == [
        "a-0002.params",
        "a-0004.params",
        "b-0002.params",
        "b-0004.params",
    ]
    _, arguments, _ = mx.model.load_checkpoint(str(tmp_path / "a"), 4)
    np.testing.assert_array_equal(
        arguments["fc_weight"].asnumpy(), module.get_params()[0]["fc_weight"].asnumpy()
    )
