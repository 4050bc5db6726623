"""Softmax and output layers, which have no label and no loss in inference."""

from __future__ import annotations

import math

from ..ops.activation import SoftmaxActivation
from ..ops.loss import SoftmaxOutput
from ..ops.regression import LogisticRegressionOutput
from ..ops.softmax import LogSoftmax, Softmax, Softmin
from .conversion import Call, converts
from .graph import INT64


@converts(SoftmaxOutput, reads=(0,))
def _softmax_output(call: Call, op: SoftmaxOutput) -> str:
    data = call.data
    if op.multi_output:
        return call.emit("Softmax", data.name, axis=1)
    if op.preserve_shape or data.rank <= 2:
        return call.emit("Softmax", data.name, axis=data.rank - 1)
    flat = call.emit("Flatten", data.name, axis=1)
    return call.reshaped(call.emit("Softmax", flat, axis=1), call.output)


@converts(SoftmaxActivation)
def _softmax_activation(call: Call, op: SoftmaxActivation) -> str:
    axis = 1 if op.mode == "channel" else call.data.rank - 1
    return call.emit("Softmax", call.data.name, axis=axis)


@converts(LogisticRegressionOutput, reads=(0,))
def _logistic_regression(call: Call, op: LogisticRegressionOutput) -> str:
    return call.emit("Sigmoid", call.data.name)


@converts(Softmax, Softmin, LogSoftmax)
def _softmax(call: Call, op: Softmax | Softmin | LogSoftmax) -> str:
    name = call.as_dtype(call.data, call.output.dtype)
    divisor = op.temperature or 1.0
    if isinstance(op, Softmin):
        divisor = -divisor
    if divisor != 1:
        name = call.emit("Div", name, call.number(divisor))
    axis = op.axis % call.data.rank
    if op.use_length:
        return _masked_softmax(call, name, axis)
    return call.emit("LogSoftmax" if isinstance(op, LogSoftmax) else "Softmax", name, axis=axis)


def _masked_softmax(call: Call, name: str, axis: int) -> str:
    """Return the softmax of each row up to its length, followed by zeros."""
    data, lengths = call.inputs
    size = call.static_length(data, axis)
    places = tuple(size if one == axis else 1 for one in range(data.rank))
    numbers = call.constant([*range(size)], "int64")
    places_name = call.viewed(numbers, places)
    whole = call.as_dtype(lengths, INT64)
    limits = call.emit("Unsqueeze", whole, call.integers(axis))
    counts = call.emit("Less", places_name, limits)
    held_back = call.emit("Where", counts, name, call.number(-math.inf))
    shares = call.emit("Softmax", held_back, axis=axis)
    return call.emit("Where", counts, shares, call.number(0))
