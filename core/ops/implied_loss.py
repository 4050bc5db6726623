"""Losses that output layers imply, computed on the host from their outputs and labels.

An output layer's ``backward`` is the gradient of a loss that ``forward`` does not compute. These
functions return its mean over the examples of a batch, to be shown during training.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ..types import Array

__all__ = [
    "ImpliedLoss",
    "absolute_error",
    "binary_cross_entropy",
    "cross_entropy",
    "cross_entropy_of_probabilities",
    "mean_output",
    "squared_error",
]

ImpliedLoss: TypeAlias = Callable[[Array, Array | None], float]
"""Returns the mean loss from the output and the label, None for operators without a label."""

_SMALLEST_PROBABILITY = 1e-12
"""The default ``eps`` of ``mx.metric.CrossEntropy``."""


def cross_entropy(probabilities: Array, label: Array, ignored: int | None) -> float:
    """Return the mean of ``-log p[label]``.

    Args:
        probabilities: (examples, classes, places).
        label: classes, in the order of examples and positions.
        ignored: label of positions that do not count; None if all do.
    """
    classes = probabilities.shape[1]
    rows = np.moveaxis(probabilities, 1, -1).reshape(-1, classes)
    wanted = label.ravel().astype(np.int64)
    chosen = rows[np.arange(len(wanted)), np.clip(wanted, 0, classes - 1)]
    if ignored is not None:
        chosen = chosen[wanted != ignored]
    return float(-_log(chosen).mean(dtype=np.float64)) if len(chosen) else 0.0


def cross_entropy_of_probabilities(output: Array, label: Array) -> float:
    """Return the cross entropy where the label holds probabilities too."""
    return float(-(label * _log(output)).sum() / len(output))


def squared_error(output: Array, label: Array | None) -> float:
    """Return the mean squared error."""
    return float(np.square(_error(output, label)).mean(dtype=np.float64))


def absolute_error(output: Array, label: Array | None) -> float:
    """Return the mean absolute error."""
    return float(np.abs(_error(output, label)).mean(dtype=np.float64))


def binary_cross_entropy(output: Array, label: Array | None) -> float:
    """Return the mean cross entropy of independent yes/no probabilities."""
    assert label is not None
    label = label.reshape(output.shape)
    return float(-(label * _log(output) + (1 - label) * _log(1 - output)).mean(dtype=np.float64))


def mean_output(output: Array, label: Array | None) -> float:
    """Return the mean of an output that is a loss itself."""
    return float(output.mean(dtype=np.float64))


def _error(output: Array, label: Array | None) -> Array:
    assert label is not None
    return output - label.reshape(output.shape)


def _log(probabilities: Array) -> Array:
    return np.log(np.maximum(probabilities, _SMALLEST_PROBABILITY))
