"""Checks and choices of metrics."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from ....metric import Accuracy, CompositeEvalMetric, EvalMetric
from ...loss import SoftmaxCrossEntropyLoss
from .events import EventHandler

__all__ = [
    "check_handler_metrics",
    "check_metrics",
    "comparison_of",
    "suggest_metric_for_loss",
]


def check_metrics(metrics: Any) -> list[EvalMetric]:
    """Return metrics as a list, those of composite ones separately.

    Raises:
        ValueError: something is not a metric.
    """
    if isinstance(metrics, CompositeEvalMetric):
        return [one for metric in metrics.metrics for one in check_metrics(metric)]
    if isinstance(metrics, EvalMetric):
        return [metrics]
    given = list(metrics or ())
    for metric in given:
        if not isinstance(metric, EvalMetric):
            raise ValueError(
                "metrics must be a Metric or a list of Metric, refer to mxnet.metric.EvalMetric; "
                f"got {type(metric).__name__}"
            )
    return given


def check_handler_metrics(handler: EventHandler, known: Collection[EvalMetric]) -> None:
    """Raise ValueError if a handler has metrics that the estimator does not compute."""
    for metric in getattr(handler, "metrics", None) or ():
        if not any(metric is one for one in known):
            raise ValueError(
                f"Event handler {type(handler).__name__} refers to a metric instance {metric} "
                "outside of the known training and validation metrics. Please use the metrics "
                "from estimator.train_metrics and estimator.val_metrics instead."
            )


def suggest_metric_for_loss(loss: Any) -> EvalMetric | None:
    """Return the metric that is computed with a loss unless others are named."""
    return Accuracy() if isinstance(loss, SoftmaxCrossEntropyLoss) else None


def comparison_of(monitor: EvalMetric, mode: str, handler: str) -> Callable[[Any, Any], Any]:
    """Return the function that tells whether a value of a metric is better than another.

    With ``"auto"``, larger values of accuracies and F1 scores are better, and smaller ones of all
    others. MXNet takes larger losses for better ones, too.

    Args:
        monitor: the metric.
        mode: ``"min"``, ``"max"`` or ``"auto"``.
        handler: the handler's name, for warnings.
    """
    if mode not in ("auto", "min", "max"):
        warnings.warn(
            f"{handler} mode {mode} is unknown, fallback to auto mode. It will use max mode for f1 "
            "and accuracy metric comparison and use min mode otherwise",
            RuntimeWarning,
            stacklevel=3,
        )
        mode = "auto"
    if mode == "auto":
        name = str(monitor.get()[0])
        mode = "max" if any(part in name.lower() for part in ("acc", "f1")) else "min"
        other = {"max": "min", "min": "max"}[mode]
        warnings.warn(
            f"{name} is taken for better where it is {'larger' if mode == 'max' else 'smaller'}. "
            f"Please specify mode='{other}' for the opposite, or mode='{mode}' to disable this "
            "warning.",
            stacklevel=3,
        )
    return np.greater if mode == "max" else np.less
