"""Metrics in TensorBoard (``mx.contrib.tensorboard``)."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["LogMetricsCallback"]

_WRITERS = ("mxboard", "tensorboardX", "torch.utils.tensorboard")
"""Packages with a ``SummaryWriter``, in the order they are tried."""


class LogMetricsCallback:
    """Batch-end or evaluation-end callback that writes metrics as scalars, at each epoch.

    Args:
        logging_dir: folder of the event files.
        prefix: put before a metric's name, with a hyphen.

    Raises:
        ImportError: there is no package that writes event files.
    """

    def __init__(self, logging_dir: str, prefix: str | None = None) -> None:
        self.prefix = prefix
        self.summary_writer = _make_writer(logging_dir)

    def __call__(self, param: Any) -> None:
        """Write the metrics so far."""
        if param.eval_metric is None:
            return
        for name, value in param.eval_metric.get_name_value():
            label = name if self.prefix is None else f"{self.prefix}-{name}"
            self.summary_writer.add_scalar(label, value, global_step=param.epoch)


def _make_writer(logging_dir: str) -> Any:
    for package in _WRITERS:
        try:
            module = importlib.import_module(package)
        except ImportError:
            continue
        return module.SummaryWriter(logging_dir)
    raise ImportError(
        f"no package writes TensorBoard's files; install one of {', '.join(_WRITERS)}"
    )
