"""Automatic differentiation of operations on NDArrays (``mx.autograd``).

Scripts that use ``from mxnet.autograd import *`` expect to get ``NDArray``, so it is listed here.
"""

from __future__ import annotations

from ..ndarray import NDArray
from .differentiation import backward, get_symbol, grad, mark_variables
from .function import Function
from .scopes import (
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
    "NDArray",
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
