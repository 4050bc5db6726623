"""The end of a training that no longer improves."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ....metric import CompositeEvalMetric, EvalMetric
from .events import EpochEnd, TrainBegin, TrainEnd
from .metric_choice import comparison_of

__all__ = ["EarlyStoppingHandler"]


class EarlyStoppingHandler(TrainBegin, EpochEnd, TrainEnd):
    """Ends a training whose metric has not improved for some epochs.

    Args:
        monitor: one of the estimator's metrics.
        min_delta: how much better a value must be to count as an improvement.
        patience: the number of epochs without improvement after which it ends.
        mode: ``"min"`` or ``"max"``, or ``"auto"`` to go by the metric's name.
        baseline: the value to improve on at first.

    Raises:
        ValueError: ``monitor`` is not a single metric.
    """

    def __init__(
        self,
        monitor: Any,
        min_delta: float = 0,
        patience: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
    ) -> None:
        if not isinstance(monitor, EvalMetric):
            raise ValueError(
                "Please provide one of the metric objects from estimator.train_metrics and "
                "estimator.val_metrics as monitor."
            )
        if isinstance(monitor, CompositeEvalMetric):
            raise ValueError(
                "CompositeEvalMetric is not supported for EarlyStoppingHandler, please specify a "
                "simple metric instead."
            )
        self.monitor = monitor
        self.baseline = baseline
        self.patience = patience
        self.wait = self.stopped_epoch = self.current_epoch = 0
        self.stop_training = False
        self.monitor_op = comparison_of(monitor, mode, "EarlyStopping")
        self.min_delta = min_delta if self.monitor_op is np.greater else -min_delta
        self.best = 0.0

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Forget earlier values."""
        self.wait = self.stopped_epoch = self.current_epoch = 0
        self.stop_training = False
        worst = np.inf if self.monitor_op is np.less else -np.inf
        self.best = worst if self.baseline is None else self.baseline

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        """Compare the metric with the best value so far."""
        name, value = self.monitor.get()
        if np.isnan(value):
            warnings.warn(
                f"{name} is not updated, make sure you pass one of the metric objects from "
                "estimator.train_metrics and estimator.val_metrics as monitor.",
                RuntimeWarning,
                stacklevel=2,
            )
        elif self.monitor_op(value - self.min_delta, self.best):
            self.best = value
            self.wait = 0
        else:
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch = self.current_epoch
                self.stop_training = True
        self.current_epoch += 1
        return self.stop_training

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Log that it was ended early."""
        if self.stopped_epoch > 0:
            estimator.logger.info(
                "[Epoch %d] EarlyStoppingHandler: early stopping due to %s not improving",
                self.stopped_epoch,
                self.monitor.get()[0],
            )
