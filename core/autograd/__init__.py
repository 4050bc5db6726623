"""Gradients of what ran on NDArrays (``mx.autograd``)."""

from __future__ import annotations

from core.autograd.differentiation import backward, get_symbol, grad, mark_variables
from core.autograd.function import Function
from core.autograd.scopes import (
    is_recording,
    is_training,
    pause,
    predict_mode,
    record,
    set_recording,
    set_training,
    train_mode,
)

__all__ = [
    "Function",
    "backward",
    "get_symbol",
    "grad",
    "is_recording",
    "is_training",
    "mark_variables",
    "pause",
    "predict_mode",
    "record",
    "set_recording",
    "set_training",
    "train_mode",
]
