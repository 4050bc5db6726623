"""Normalizations."""

from __future__ import annotations

import math

import numpy as np

from ..ops.norm import (
    BatchNorm,
    BatchNormWithReLU,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
)
from ..ops.norm_scale import LRN, L2Normalization
from .conversion import Call, converts


@converts(BatchNorm)
def _batch_norm(call: Call, op: BatchNorm) -> str:
    data, gamma, *rest = call.names
    rank, axis = call.data.rank, op.axis % call.data.rank
    if op.fix_gamma:
        gamma = call.constant(np.ones(call.inputs[1].shape), call.inputs[1].dtype)
    if axis != 1:
        order = [one for one in range(rank) if one != axis]
        order.insert(min(1, len(order)), axis)
        data = call.transposed(data, order)
    out = call.emit("BatchNormalization", data, gamma, *rest, epsilon=op.eps)
    if axis != 1:
        out = call.transposed(out, [order.index(one) for one in range(rank)])
    return out


@converts(BatchNormWithReLU)
def _batch_norm_with_relu(call: Call, op: BatchNormWithReLU) -> str:
    return call.emit("Relu", _batch_norm(call, op))


@converts(LayerNorm)
def _layer_norm(call: Call, op: LayerNorm) -> str:
    data, gamma, beta = call.names
    rank, axis = call.data.rank, op.axis % call.data.rank
    order = [*(one for one in range(rank) if one != axis), axis]
    moved = call.transposed(data, order)
    out = call.emit("LayerNormalization", moved, gamma, beta, axis=-1, epsilon=op.eps)
    return call.transposed(out, [order.index(one) for one in range(rank)])


@converts(InstanceNorm)
def _instance_norm(call: Call, op: InstanceNorm) -> str:
    if call.data.rank < 3:
        raise call.cannot(f"data has shape {call.data.shape}; ONNX needs 3 axes or more")
    return call.emit("InstanceNormalization", *call.names, epsilon=op.eps)


@converts(GroupNorm)
def _group_norm(call: Call, op: GroupNorm) -> str:
    data, gamma, beta = call.names
    batch, *rest = call.data.shape
    grouped = call.viewed(
        data,
        (batch, op.num_groups, math.prod(rest) // op.num_groups),
        (call.data.dynamic[0], False, False),
    )
    out = call.emit("InstanceNormalization", grouped, gamma, beta, epsilon=op.eps)
    return call.reshaped(out, call.output)


@converts(L2Normalization)
def _l2_normalization(call: Call, op: L2Normalization) -> str:
    data = call.data.name
    first = 2 if op.mode == "spatial" else 1
    axes = (1,) if op.mode == "channel" else range(first, call.data.rank)
    square = call.emit("Mul", data, data)
    total = call.emit("ReduceSum", square, call.integers(*axes), keepdims=1)
    length = call.emit("Sqrt", call.emit("Add", total, call.number(op.eps)))
    return call.emit("Div", data, length)


@converts(LRN)
def _lrn(call: Call, op: LRN) -> str:
    return call.emit(
        "LRN", call.data.name, alpha=op.alpha, beta=op.beta, bias=op.knorm, size=op.nsize
    )
