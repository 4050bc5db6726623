"""Lines about the progress of a training."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ....metric import EvalMetric
from .events import BatchBegin, BatchEnd, EpochBegin, EpochEnd, TrainBegin, TrainEnd
from .metric_choice import check_metrics

__all__ = ["LoggingHandler"]


class LoggingHandler(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Writes metrics and times to the estimator's logger.

    Args:
        log_interval: ``"epoch"``, or the number of batches between lines.
        metrics: the metrics to write.
        priority: high, because what is logged must have happened.

    Raises:
        ValueError: another ``log_interval``.
    """

    def __init__(
        self,
        log_interval: int | str = "epoch",
        metrics: Any = None,
        priority: float = np.inf,
    ) -> None:
        if not isinstance(log_interval, int) and log_interval != "epoch":
            raise ValueError("log_interval must be either an integer or string 'epoch'")
        self.metrics: list[EvalMetric] = check_metrics(metrics)
        self.batch_index = self.current_epoch = self.processed_samples = 0
        self.priority = priority
        self.log_interval = log_interval
        self.log_interval_time = 0.0
        self.train_start = self.epoch_start = self.batch_start = 0.0

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Log the optimizer and how long it will train; count from zero."""
        self.train_start = time.monotonic()
        trainer = estimator.trainer
        estimator.logger.info(
            "Training begin: using optimizer %s with current learning rate %.4f ",
            type(trainer.optimizer).__name__,
            trainer.learning_rate,
        )
        if estimator.max_epoch:
            estimator.logger.info("Train for %d epochs.", estimator.max_epoch)
        else:
            estimator.logger.info("Train for %d batches.", estimator.max_batch)
        self.batch_index = self.current_epoch = self.processed_samples = 0
        self.log_interval_time = 0.0

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Log the time taken and the metrics."""
        seconds = time.monotonic() - self.train_start
        start = f"Train finished using total {int(seconds)}s with {self.current_epoch} epochs. "
        estimator.logger.info((start + self._values()).rstrip(", "))

    def batch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Note the time."""
        self.batch_start = time.monotonic()

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Log the metrics so far if it is time."""
        if isinstance(self.log_interval, int):
            self.processed_samples += kwargs["batch"][0].shape[0]
            self.log_interval_time += time.monotonic() - self.batch_start
            if self.batch_index % self.log_interval == 0:
                line = (
                    f"[Epoch {self.current_epoch}][Batch {self.batch_index}]"
                    f"[Samples {self.processed_samples}] "
                    f"time/interval: {self.log_interval_time:.3f}s "
                )
                self.log_interval_time = 0.0
                estimator.logger.info((line + self._values()).rstrip(", "))
        self.batch_index += 1

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Log that an epoch or a validation begins."""
        self.epoch_start = time.monotonic()
        # The estimator names its metrics so.
        if any("training" in metric.name for metric in self.metrics):
            estimator.logger.info(
                "[Epoch %d] Begin, current learning rate: %.4f",
                self.current_epoch,
                estimator.trainer.learning_rate,
            )
        else:
            estimator.logger.info("Validation Begin")

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Log the time taken and the metrics."""
        seconds = time.monotonic() - self.epoch_start
        line = f"[Epoch {self.current_epoch}] Finished in {seconds:.3f}s, "
        estimator.logger.info((line + self._values()).rstrip(", "))
        self.current_epoch += 1
        self.batch_index = 0

    def _values(self) -> str:
        pairs = (metric.get() for metric in self.metrics)
        return "".join(f"{name}: {value:.4f}, " for name, value in pairs)
