"""The handlers that an estimator adds by itself, and all others under MXNet's import path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....metric import EvalMetric
from ....metric import Loss as LossMetric
from .checkpoint_handler import CheckpointHandler
from .early_stopping_handler import EarlyStoppingHandler
from .events import (
    BatchBegin,
    BatchEnd,
    EpochBegin,
    EpochEnd,
    EventHandler,
    TrainBegin,
    TrainEnd,
)
from .logging_handler import LoggingHandler
from .metric_choice import check_metrics

__all__ = [
    "BatchBegin",
    "BatchEnd",
    "CheckpointHandler",
    "EarlyStoppingHandler",
    "EpochBegin",
    "EpochEnd",
    "EventHandler",
    "GradientUpdateHandler",
    "LoggingHandler",
    "MetricHandler",
    "StoppingHandler",
    "TrainBegin",
    "TrainEnd",
    "ValidationHandler",
]


class StoppingHandler(TrainBegin, BatchEnd, EpochEnd):
    """Ends the training after a number of epochs or batches, which are the estimator's.

    Args:
        max_epoch, max_batch: the numbers until a training begins.
    """

    def __init__(self, max_epoch: int | None = None, max_batch: int | None = None) -> None:
        self.max_epoch = max_epoch
        self.max_batch = max_batch
        self.current_batch = self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Count from zero."""
        self.max_epoch = estimator.max_epoch
        self.max_batch = estimator.max_batch
        self.current_batch = self.current_epoch = 0

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        """Count a batch."""
        self.current_batch += 1
        if self.current_batch == self.max_batch:
            self.stop_training = True
        return self.stop_training

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        """Count an epoch."""
        self.current_epoch += 1
        if self.current_epoch == self.max_epoch:
            self.stop_training = True
        return self.stop_training


class MetricHandler(EpochBegin, BatchEnd):
    """Updates metrics after each batch; those of losses by the losses.

    Args:
        metrics: the metrics.
        priority: low, so that other handlers can read them.
    """

    def __init__(self, metrics: Any, priority: float = -1000) -> None:
        self.metrics: list[EvalMetric] = check_metrics(metrics)
        self.priority = priority

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Reset the metrics."""
        for metric in self.metrics:
            metric.reset()

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Update the metrics."""
        for metric in self.metrics:
            if isinstance(metric, LossMetric):
                metric.update(0, kwargs["loss"])
            else:
                metric.update(kwargs["label"], kwargs["pred"])


class ValidationHandler(TrainBegin, BatchEnd, EpochEnd):
    """Evaluates the model after some epochs or batches.

    Args:
        val_data: a data loader.
        eval_fn: evaluates it, as ``Estimator.evaluate`` does.
        epoch_period: number of epochs between evaluations; None for none after epochs.
        batch_period: likewise for batches.
        priority: low, so that other handlers can read the metrics.
        event_handlers: handlers for the evaluations.
    """

    def __init__(
        self,
        val_data: Any,
        eval_fn: Callable[..., Any],
        epoch_period: int | None = 1,
        batch_period: int | None = None,
        priority: float = -1000,
        event_handlers: Any = None,
    ) -> None:
        self.val_data = val_data
        self.eval_fn = eval_fn
        self.epoch_period = epoch_period
        self.batch_period = batch_period
        self.current_batch = self.current_epoch = 0
        self.priority = priority
        self.event_handlers = event_handlers

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Count from zero."""
        self.current_batch = self.current_epoch = 0

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Count a batch, and evaluate if it is time."""
        self.current_batch += 1
        if self.batch_period and self.current_batch % self.batch_period == 0:
            self._evaluate(estimator)

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Count an epoch, and evaluate if it is time."""
        self.current_epoch += 1
        if self.epoch_period and self.current_epoch % self.epoch_period == 0:
            self._evaluate(estimator)

    def _evaluate(self, estimator: Any) -> None:
        self.eval_fn(
            val_data=self.val_data,
            batch_axis=estimator.batch_axis,
            event_handlers=self.event_handlers,
        )


class GradientUpdateHandler(BatchEnd):
    """Updates the parameters after each batch.

    Args:
        priority: the lowest, so that other handlers find the new parameters.
    """

    def __init__(self, priority: float = -2000) -> None:
        self.priority = priority

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Update by the gradients, divided by the number of losses."""
        loss = kwargs["loss"]
        losses = loss if isinstance(loss, list) else [loss]
        estimator.trainer.step(sum(one.shape[0] for one in losses))
