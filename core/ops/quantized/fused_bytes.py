"""The arithmetic of fused layers on bytes: integer sums with a single rounding at the end."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...types import Array
from ..operator import Run
from .base import (
    FLOAT32,
    INT8,
    INT32,
    STEPS,
    product_reach,
    reach,
    steps_per_unit,
    write_rounded,
)
from .layers import write_sums

__all__ = ["ByteConvolution", "ByteProduct", "folded", "weight_scales"]

_FLOAT64 = np.dtype("float64")
_TINY = 1e-30
_LARGEST_BIAS = float(2**30)
"""Limit in the scale of the sums, so that these cannot overflow."""


def folded(xp: Any, stages: Any, parameters: Sequence[Array]) -> tuple[Array, Array | None]:
    """Return the weight and bias of a layer with the batch norm that follows it folded in.

    Args:
        xp: numpy or cupy.
        stages: the layer.
        parameters: weight, bias if any, and gamma, beta, mean and variance if there is a batch
            norm.
    """
    weight, *others = parameters
    bias = None if stages.layer.no_bias else others.pop(0)
    if stages.norm is None:
        return weight, bias
    gamma, beta, mean, variance = others
    exact = xp.sqrt(variance.astype(_FLOAT64) + stages.norm.eps)
    scale = ((1 if stages.norm.fix_gamma else gamma) / exact).astype(FLOAT32)
    bias = beta + scale * ((0 if bias is None else bias) - mean)
    return weight * scale.reshape(-1, *(1 for _ in weight.shape[1:])), bias


def weight_scales(xp: Any, weight: Array, *, by_channel: bool) -> Array:
    """Return the quantization scales of the weights, for each channel or (1,)."""
    furthest = xp.abs(weight).reshape(weight.shape[0], -1).max(axis=1)
    if not by_channel:
        furthest = furthest.max().reshape(1)
    return np.float32(STEPS[INT8]) / xp.maximum(furthest, np.float32(_TINY))


def _fitting(xp: Any, scales: Array, bias: Array | None, data_scale: Any) -> Array:
    """Return scales by channel, reduced if the bias would overflow the sums."""
    if bias is None:
        return scales
    most = np.float32(_LARGEST_BIAS) / (xp.maximum(xp.abs(bias), np.float32(_TINY)) * data_scale)
    return xp.minimum(scales, most)


@dataclasses.dataclass
class ByteConvolution:
    """A convolution of bytes with its fused stages; ``layer`` is the operator."""

    layer: Any

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Write all outputs."""
        xp, layer, out = run.xp, self.layer, outputs[0]
        stages, count = layer.stages, len(layer.tensor_names())
        parameters = inputs[1 : count - stages.has_sum]
        data, ranges = inputs[0], inputs[count:]
        weight, bias = folded(xp, stages, parameters)
        data_scale = steps_per_unit(run, data.dtype, *ranges[:2])
        scales = weight_scales(xp, weight, by_channel=layer.is_calibrated)
        if layer.is_calibrated:
            scales = _fitting(xp, scales, bias, data_scale)
        column = (-1, *(1 for _ in weight.shape[2:]))
        whole = run.scratch(weight.shape, INT8)
        write_rounded(run, weight * scales.reshape(-1, *(1 for _ in weight.shape[1:])), whole)
        numbers = self._sums(run, data, whole, bias, data_scale * scales, column, out)
        if layer.is_calibrated:
            out_scale = np.float32(STEPS[layer.target] / layer.calibrated_reach)
            numbers *= (out_scale / data_scale / scales).reshape(column)
            layer.write_calibrated(run, outputs)
        else:
            out_scale = data_scale * scales
            low, high = weight.min().reshape(1), weight.max().reshape(1)
            furthest = product_reach(run, (data.dtype, INT8), (*ranges[:2], low, high))
            xp.copyto(outputs[1], -furthest)
            xp.copyto(outputs[2], furthest)
        if getattr(stages.activation, "names", ("",))[0] != "clip":
            # A clip that begins at 0 is what writing to uint8 of the known range does.
            _activate(run, stages.activation, numbers)
        if stages.has_sum:
            self._add(run, inputs[count - 1], out_scale, ranges[2:], numbers)
            if layer.is_calibrated:
                self._limit_to(run, inputs[count - 1], numbers)
        write_rounded(run, numbers, out)

    def _sums(
        self,
        run: Run,
        data: Array,
        weight: Array,
        bias: Array | None,
        scale: Array,
        column: tuple[int, ...],
        out: Array,
    ) -> Array:
        """Return the convolution of data and weight plus bias, in the scale of the sums."""
        sums, numbers = run.scratch(out.shape, _FLOAT64), run.scratch(out.shape, FLOAT32)
        bare = dataclasses.replace(self.layer.stages.layer, no_bias=True)
        write_sums(run, bare, data, weight, sums)
        if bias is not None:
            whole = run.xp.rint(bias * scale).clip(-_LARGEST_BIAS, _LARGEST_BIAS)
            sums += whole.reshape(column)
        run.xp.copyto(numbers, sums, casting="same_kind")
        return numbers

    def _add(
        self, run: Run, other: Array, out_scale: Any, ends: Sequence[Array], numbers: Array
    ) -> None:
        term = run.scratch(numbers.shape, FLOAT32)
        factor = out_scale / steps_per_unit(run, other.dtype, *ends)
        run.xp.multiply(other, factor, out=term)
        numbers += term
        _activate(run, self.layer.stages.last_activation, numbers)

    def _limit_to(self, run: Run, other: Array, numbers: Array) -> None:
        """Limit the sum to the range of the residual's dtype: MXNet adds in place, in the
        residual's memory."""
        largest = np.iinfo(other.dtype).max
        run.xp.minimum(numbers, largest, out=numbers)


@dataclasses.dataclass
class ByteProduct:
    """A fully connected layer of bytes with an activation; ``layer`` is the operator."""

    layer: Any

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Write all outputs."""
        xp, layer, out = run.xp, self.layer, outputs[0]
        count = len(layer.tensor_names())
        data, ranges = inputs[0], inputs[count:]
        data_scale = steps_per_unit(run, data.dtype, *ranges[:2])
        weight, bias, scales = self._parameters(run, inputs[1:count], ranges, data_scale)
        numbers = self._sums(run, data, weight, bias, out)
        if out.dtype == INT32:
            furthest = product_reach(run, (data.dtype, INT8), ranges[:4])
            xp.copyto(outputs[1], -furthest)
            xp.copyto(outputs[2], furthest)
            _activate(run, layer.stages.activation, numbers)
            write_rounded(run, numbers, out)
            return
        numbers /= data_scale * scales
        _activate(run, layer.stages.activation, numbers)
        if out.dtype == FLOAT32:
            xp.copyto(out, numbers)
            return
        numbers *= np.float32(STEPS[out.dtype] / layer.calibrated_reach)
        write_rounded(run, numbers, out)
        layer.write_calibrated(run, outputs)

    def _parameters(
        self, run: Run, given: Sequence[Array], ranges: Sequence[Array], data_scale: Array
    ) -> tuple[Array, Array | None, Array]:
        """Return weight and bias in the scale of the sums, and the scale of the weight."""
        xp, (weight, *bias) = run.xp, given
        if self.layer.channel_wise_quantize:
            scales = weight_scales(xp, weight, by_channel=True)
            scales = _fitting(xp, scales, bias[0] if bias else None, data_scale)
            whole = run.scratch(weight.shape, INT8)
            write_rounded(run, weight * scales[:, None], whole)
            return whole, xp.rint(bias[0] * data_scale * scales) if bias else None, scales
        scales = steps_per_unit(run, INT8, *ranges[2:4])
        if not bias:
            return weight, None, scales
        unit = reach(run, *ranges[4:6]) / np.float32(STEPS[INT8])
        # Rounded half away from 0, as by std::round in MXNet; in convolutions oneDNN rounds to
        # even.
        in_sums = bias[0] * (unit * data_scale * scales)
        return weight, xp.trunc(in_sums + xp.copysign(np.float32(0.5), in_sums)), scales

    def _sums(self, run: Run, data: Array, weight: Array, bias: Array | None, out: Array) -> Array:
        sums, numbers = run.scratch(out.shape, _FLOAT64), run.scratch(out.shape, FLOAT32)
        bare = dataclasses.replace(self.layer.stages.layer, no_bias=True)
        write_sums(run, bare, data, weight, sums)
        if bias is not None:
            sums += bias
        run.xp.copyto(numbers, sums, casting="same_kind")
        return numbers


def _activate(run: Run, activation: Any, numbers: Array) -> None:
    if activation is None:
        return
    source = run.scratch(numbers.shape, numbers.dtype)
    run.xp.copyto(source, numbers)
    activation.forward(run, [source], [numbers])
