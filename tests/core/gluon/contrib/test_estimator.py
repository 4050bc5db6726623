"""The estimator: what it trains, its events, and MXNet's mistakes that it does not make.

MXNet's own tests of it (20 of 21; the other one downloads a model) pass, too.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import UsageError
from core.gluon import nn
from core.gluon.contrib.estimator import (
    BatchProcessor,
    CheckpointHandler,
    EarlyStoppingHandler,
    EpochEnd,
    Estimator,
    GradientUpdateHandler,
    LoggingHandler,
    MetricHandler,
    StoppingHandler,
    ValidationHandler,
)
from core.gluon.loss import L2Loss, SoftmaxCrossEntropyLoss

RATE = {"learning_rate": 0.1}


def _net(outputs: int = 2) -> Any:
    net = nn.HybridSequential()
    net.add(nn.Dense(outputs, in_units=3))
    net.initialize(mx.init.Constant(0.1))
    return net


def _loader(rows: int = 8, batch: int = 4) -> Any:
    random = np.random.RandomState(2)
    data, labels = random.rand(rows, 3).astype("f"), random.randint(2, size=rows).astype("f")
    dataset = mx.gluon.data.ArrayDataset(mx.nd.array(data), mx.nd.array(labels))
    return mx.gluon.data.DataLoader(dataset, batch)


def _estimator(net: Any = None, **options: Any) -> Estimator:
    net = net or _net()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", RATE)
    made = Estimator(net, SoftmaxCrossEntropyLoss(), trainer=trainer, **options)
    made.logger.handlers = [logging.NullHandler()]
    return made


def _weight(net: Any) -> Any:
    return net[0].weight.data().asnumpy()


def test_fit_trains_as_a_loop_by_hand() -> None:
    net, other = _net(), _net()
    estimator = _estimator(net)
    estimator.fit(_loader(), val_data=_loader(), epochs=3)
    trainer = mx.gluon.Trainer(other.collect_params(), "sgd", RATE)
    loss = SoftmaxCrossEntropyLoss()
    for _ in range(3):
        for data, label in _loader():
            with mx.autograd.record():
                value = loss(other(data), label)
            value.backward()
            trainer.step(4)
    np.testing.assert_array_equal(_weight(net), _weight(other))
    assert [one.name for one in estimator.train_metrics] == [
        "training accuracy",
        "training softmaxcrossentropyloss",
    ]
    accuracy = mx.metric.Accuracy()
    for data, label in _loader():
        accuracy.update(label, other(data))
    assert estimator.val_metrics[0].get() == ("validation accuracy", accuracy.get()[1])


def test_fit_for_batches_ends_within_an_epoch() -> None:
    stopping = StoppingHandler()
    estimator = _estimator()
    estimator.fit(_loader(), batches=3, event_handlers=[stopping])
    assert (stopping.current_batch, stopping.current_epoch) == (3, 2)


def test_handlers_are_called_in_the_order_of_priority_and_stay_the_callers() -> None:
    class Ending(EpochEnd):
        priority = 5

        def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
            return True

    given = [Ending()]
    estimator = _estimator()
    handlers = estimator._prepare_default_handlers(_loader(), given)
    kinds = [GradientUpdateHandler, MetricHandler, ValidationHandler, StoppingHandler, Ending]
    assert [type(one) for one in handlers] == [*kinds, LoggingHandler]
    assert len(given) == 1
    estimator.fit(_loader(), epochs=9, event_handlers=given)
    assert estimator.trainer.optimizer.num_update == 2  # the batches of one epoch


def test_progress_is_logged() -> None:
    lines: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    estimator = _estimator()
    estimator.logger.addHandler(Keeper())
    logger = LoggingHandler(log_interval=1, metrics=estimator.train_metrics)
    estimator.fit(_loader(), val_data=_loader(), epochs=1, event_handlers=logger)
    starts = ["Training begin: using optimizer SGD", "Train for 1 epochs.", "[Epoch 0] Begin"]
    starts += ["[Epoch 0][Batch 0][Samples 4] time", "[Epoch 0][Batch 1][Samples 8] time"]
    starts += ["Validation Begin", "[Epoch 0] Finished", "[Epoch 0] Finished", "Train finished"]
    assert [line for line, start in zip(lines, starts, strict=True) if line.startswith(start)] == (
        lines
    )
    with pytest.raises(ValueError, match="integer or string 'epoch'"):
        LoggingHandler(log_interval="batch")


def test_a_batch_processor_replaces_the_computation() -> None:
    class Doubled(BatchProcessor):
        def fit_batch(self, estimator: Any, train_batch: Any, batch_axis: int = 0) -> Any:
            for _ in range(2):
                found = super().fit_batch(estimator, train_batch, batch_axis)
            return found

    net = _net()
    net.collect_params().setattr("grad_req", "add")
    _estimator(net, batch_processor=Doubled()).fit(_loader(4), batches=1)
    gradient = net[0].weight.grad().asnumpy()
    other = _net()
    _estimator(other).fit(_loader(4), batches=1)
    np.testing.assert_allclose(gradient, 2 * other[0].weight.grad().asnumpy(), rtol=1e-6)
    with pytest.raises(ValueError, match="fit_batch"):
        _estimator(batch_processor=object())


# -- checkpoints ------------------------------------------------------------------------------


def _files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_the_oldest_checkpoints_are_removed_and_no_others(tmp_path: Path) -> None:
    """MXNet removes batch 10 with batch 1, because its name begins so."""
    handler = CheckpointHandler(
        str(tmp_path), epoch_period=None, batch_period=1, max_checkpoints=11
    )
    net = _net()
    net.hybridize()
    _estimator(net).fit(_loader(48), batches=12, event_handlers=[handler])
    batches = [f"model-epoch0batch{number}" for number in range(1, 12)]
    names = [f"{name}.{ending}" for name in batches for ending in ("params", "states")]
    assert _files(tmp_path) == sorted([*names, "model-symbol.json"])
    block = mx.gluon.SymbolBlock.imports(str(tmp_path / "model-symbol.json"), ["data"])
    assert block.collect_params().keys() == net.collect_params().keys()


def test_training_goes_on_from_the_newest_checkpoint(tmp_path: Path) -> None:
    folder = str(tmp_path)
    whole, first, second = _net(), _net(), _net()
    _estimator(whole).fit(_loader(), epochs=12)
    handler = CheckpointHandler(folder, "best", max_checkpoints=3)
    _estimator(first).fit(_loader(), epochs=11, event_handlers=[handler])
    assert len(_files(tmp_path)) == 6
    resumed = CheckpointHandler(folder, "best", resume_from_checkpoint=True, max_checkpoints=3)
    estimator = _estimator(second)
    estimator.fit(_loader(), epochs=12, event_handlers=[resumed])
    np.testing.assert_array_equal(_weight(second), _weight(whole))
    assert "best-epoch11batch24.params" in _files(tmp_path)
    assert len(_files(tmp_path)) == 6  # those of the first training count
    with pytest.raises(ValueError, match="maximum number of epoch 12 reached"):
        _estimator(_net()).fit(_loader(), epochs=12, event_handlers=[resumed])
    (tmp_path / "best-epoch11batch24.states").unlink()
    with pytest.raises(UsageError, match=r"batch24\.states does not exist"):
        _estimator(_net()).fit(_loader(), epochs=13, event_handlers=[resumed])
    (tmp_path / "best-epochXbatch1.params").touch()
    with pytest.raises(ValueError, match="Error parsing checkpoint file best-epochXbatch1"):
        _estimator(_net()).fit(_loader(), epochs=13, event_handlers=[resumed])


def test_a_smaller_loss_is_the_best_and_a_larger_accuracy(tmp_path: Path) -> None:
    """MXNet keeps the checkpoint with the largest loss."""
    estimator = _estimator()
    accuracy, loss = estimator.train_metrics
    with pytest.warns(UserWarning, match="loss is taken for better where it is smaller"):
        handler = CheckpointHandler(str(tmp_path), monitor=loss, save_best=True)
    estimator.fit(_loader(), epochs=3, event_handlers=[handler])
    assert handler.best == pytest.approx(loss.get()[1])  # it falls from epoch to epoch
    newest, best = (
        mx.nd.load(str(tmp_path / name))["0.weight"].asnumpy()
        for name in ("model-epoch2batch6.params", "model-best.params")
    )
    np.testing.assert_array_equal(best, newest)
    with pytest.warns(UserWarning, match="accuracy is taken for better where it is larger"):
        EarlyStoppingHandler(accuracy)
    with pytest.raises(ValueError, match="one of the metric objects"):
        CheckpointHandler(str(tmp_path), save_best=True)


def test_training_ends_when_it_no_longer_improves() -> None:
    estimator = _estimator()
    loss = estimator.train_metrics[1]
    stopping = EarlyStoppingHandler(loss, mode="min", patience=2, min_delta=10.0)
    estimator.fit(_loader(), epochs=50, event_handlers=[stopping])
    # The first epoch improves on infinity; two without an improvement by 10 follow.
    assert stopping.current_epoch == 3
    improving = EarlyStoppingHandler(loss, mode="min", patience=2)
    estimator.fit(_loader(), epochs=5, event_handlers=[improving])
    assert improving.current_epoch == 5


# -- refusals ---------------------------------------------------------------------------------


def test_wrong_arguments_are_refused() -> None:
    estimator = _estimator()
    for call, options in (
        (estimator.fit, {"train_data": [1], "epochs": 1}),
        (estimator.evaluate, {"val_data": [1]}),
    ):
        with pytest.raises(ValueError, match="DataLoader"):
            call(**options)
    for amount in ({}, {"epochs": 1, "batches": 1}):
        with pytest.raises(ValueError, match="one and only one"):
            estimator.fit(_loader(), **amount)
    with pytest.raises(ValueError, match="outside of the known training"):
        estimator.fit(_loader(), epochs=1, event_handlers=[MetricHandler([mx.metric.MSE()])])
    with pytest.raises(ValueError, match="must be an EventHandler"):
        estimator.fit(_loader(), epochs=1, event_handlers=["log"])
    with pytest.raises(ValueError, match="loss must be a Loss"):
        Estimator(_net(), "l2")
    with pytest.raises(ValueError, match="must be a Metric"):
        _estimator(train_metrics=["acc"])
    with pytest.raises(ValueError, match="context must be a Context"):
        _estimator(context="cpu")
    with pytest.raises(ValueError, match="Trainer must be"):
        Estimator(_net(), L2Loss(), trainer="sgd")


def test_a_block_is_initialized_unless_it_is_already() -> None:
    net = nn.Dense(1, in_units=3)
    with pytest.warns(UserWarning, match="No trainer specified"):
        Estimator(net, L2Loss(), initializer=mx.init.One(), context=mx.cpu(0))
    assert (net.weight.data().asnumpy() == 1).all()
    with pytest.warns(UserWarning, match="already fully initialized"):
        _estimator(initializer=mx.init.Zero())
