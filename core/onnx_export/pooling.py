"""Pooling. In a mean, ONNX counts either all padding or none; MXNet counts the attribute's padding,
but not the area that the last window of the convention ``full`` covers beyond it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..ops.pool import Pooling
from ..ops.resize import AdaptiveAvgPooling2D
from ..ops.window import is_channels_last
from .conversion import Call, converts
from .convolution import channels_first, channels_last

_GLOBAL = {"max": "GlobalMaxPool", "avg": "GlobalAveragePool"}


@converts(Pooling)
def _pooling(call: Call, op: Pooling) -> str:
    last, rank = is_channels_last(op.layout), call.data.rank
    data = channels_first(call, call.data.name, rank) if last else call.data.name
    out = _pooled(call, op, data)
    return channels_last(call, out, rank) if last else out


def _pooled(call: Call, op: Pooling, data: str) -> str:
    if op.global_pool and op.pool_type in _GLOBAL:
        return call.emit(_GLOBAL[op.pool_type], data)
    if op.pool_type == "lp":
        raise call.cannot("its powers keep their sign, those of ONNX's LpPool do not")
    intervals = op.intervals(call.data.shape)
    for interval in intervals:
        call.static_length(call.data, interval.axis)
    before = [one.pad for one in intervals]
    beyond = [
        (one.count - 1) * one.stride + one.kernel - one.size - 2 * one.pad for one in intervals
    ]
    kernel = [one.kernel for one in intervals]
    window = {"kernel_shape": kernel, "strides": [one.stride for one in intervals]}
    after = [max(0, pad + extra) for pad, extra in zip(before, beyond, strict=True)]
    if any(pad >= size for pad, size in zip((*before, *after), (*kernel, *kernel), strict=True)):
        raise call.cannot(f"a window of {tuple(kernel)} may lie in padding alone")
    if op.pool_type == "max":
        return call.emit("MaxPool", data, **window, pads=[*before, *after])
    if op.pool_type == "sum":
        whole = _padded(call, data, before, after)
        mean = call.emit("AveragePool", whole, **window)
        return call.emit("Mul", mean, call.number(math.prod(kernel)))
    if op.count_include_pad is False or not any(before):
        return call.emit("AveragePool", data, **window, pads=[*before, *after])
    if max(beyond) <= 0:
        pads = [*before, *after]
        return call.emit("AveragePool", data, **window, pads=pads, count_include_pad=1)
    # The attribute's padding becomes part of the data, so that only what lies beyond is left out.
    padded = _padded(call, data, before, before)
    rest = [0] * len(before) + [max(0, extra) for extra in beyond]
    return call.emit("AveragePool", padded, **window, pads=rest)


def _padded(call: Call, data: str, before: Sequence[int], after: Sequence[int]) -> str:
    if not any((*before, *after)):
        return data
    return call.emit("Pad", data, call.integers(0, 0, *before, 0, 0, *after), call.number(0))


@converts(AdaptiveAvgPooling2D)
def _adaptive_pooling(call: Call, op: AdaptiveAvgPooling2D) -> str:
    sizes = [call.static_length(call.data, axis) for axis in (2, 3)]
    wanted = [call.static_length(call.output, axis) for axis in (2, 3)]
    if wanted == [1, 1]:
        return call.emit("GlobalAveragePool", call.data.name)
    if any(size % want for size, want in zip(sizes, wanted, strict=True)):
        raise call.cannot(
            f"windows of {sizes[0]}x{sizes[1]} data for {wanted[0]}x{wanted[1]} outputs differ in "
            f"size"
        )
    kernel = [size // want for size, want in zip(sizes, wanted, strict=True)]
    return call.emit("AveragePool", call.data.name, kernel_shape=kernel, strides=kernel)
