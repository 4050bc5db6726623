"""Callbacks of ``fit`` (``mx.callback``)."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any

from .checkpoint import save_checkpoint

__all__ = [
    "LogValidationMetricsCallback",
    "ProgressBar",
    "Speedometer",
    "do_checkpoint",
    "log_train_metric",
    "module_checkpoint",
]


def module_checkpoint(
    mod: Any, prefix: str, period: int = 1, save_optimizer_states: bool = False
) -> Callable[..., None]:
    """Return an epoch-end callback that saves a module every ``period`` epochs."""
    period = max(1, int(period))

    def callback(epoch: int, sym: Any = None, arg: Any = None, aux: Any = None) -> None:
        if (epoch + 1) % period == 0:
            mod.save_checkpoint(prefix, epoch + 1, save_optimizer_states)

    return callback


def do_checkpoint(prefix: str, period: int = 1) -> Callable[..., None]:
    """Return an epoch-end callback that saves symbol and parameters every ``period`` epochs."""
    period = max(1, int(period))

    def callback(epoch: int, sym: Any, arg: Any, aux: Any) -> None:
        if (epoch + 1) % period == 0:
            save_checkpoint(prefix, epoch + 1, sym, arg, aux)

    return callback


def log_train_metric(period: int, auto_reset: bool = False) -> Callable[[Any], None]:
    """Return a batch-end callback that logs the metric every ``period`` batches."""

    def callback(param: Any) -> None:
        if param.nbatch % period == 0 and param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.info(
                    "Iter[%d] Batch[%d] Train-%s=%f", param.epoch, param.nbatch, name, value
                )
            if auto_reset:
                param.eval_metric.reset_local()

    return callback


class Speedometer:
    """Batch-end callback that logs samples per second and the metric.

    Args:
        batch_size: examples per batch.
        frequent: number of batches between lines.
        auto_reset: reset the metric after each line.
    """

    def __init__(self, batch_size: int, frequent: int = 50, auto_reset: bool = True) -> None:
        self.batch_size = batch_size
        self.frequent = frequent
        self.init = False
        self.tic = 0.0
        self.last_count = 0
        self.auto_reset = auto_reset

    def __call__(self, param: Any) -> None:
        """Log if ``frequent`` batches have passed."""
        count = param.nbatch
        if self.last_count > count:  # a new epoch, whose first batch starts the clock
            self.init = False
        self.last_count = count
        if not self.init:
            self.init, self.tic = True, time.monotonic()
        elif count % self.frequent == 0:
            self._log(param, count)
            self.tic = time.monotonic()

    def _log(self, param: Any, count: int) -> None:
        elapsed = time.monotonic() - self.tic
        speed = self.frequent * self.batch_size / elapsed if elapsed else math.inf
        if param.eval_metric is None:
            logging.info("Iter[%d] Batch [%d]\tSpeed: %.2f samples/sec", param.epoch, count, speed)
            return
        pairs = param.eval_metric.get_name_value()
        first = count - self.frequent if self.auto_reset else 0
        if self.auto_reset:
            param.eval_metric.reset_local()
        logging.info(
            "Epoch[%d] Batch [%d-%d]\tSpeed: %.2f samples/sec%s",
            param.epoch,
            first,
            count,
            speed,
            "".join(f"\t{name}={value:f}" for name, value in pairs),
        )


class ProgressBar:
    """Batch-end callback that logs a bar of the epoch's progress.

    Args:
        total: batches per epoch.
        length: width of the bar in characters.
    """

    def __init__(self, total: int, length: int = 80) -> None:
        self.bar_len = length
        self.total = total

    def __call__(self, param: Any) -> None:
        """Log the bar."""
        done = param.nbatch / float(self.total)
        filled = round(self.bar_len * done)
        bar = "=" * filled + "-" * (self.bar_len - filled)
        logging.info("[%s] %s%s\r", bar, math.ceil(100.0 * done), "%")


class LogValidationMetricsCallback:
    """Evaluation-end callback that logs the metric."""

    def __call__(self, param: Any) -> None:
        """Log the metric."""
        if param.eval_metric:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Epoch[%d] Validation-%s=%f", param.epoch, name, value)
