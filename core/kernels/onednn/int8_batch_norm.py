"""Batch normalization of bytes: each channel is scaled, shifted and rounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...capabilities.quantized import QuantizedBatchNorm
from ...types import Array
from ..kernel import Kernel, KernelArrays, KernelLayouts, KernelRequest, KernelResources, Watch
from .constants import Argument, DataType, Normalization, Propagation
from .kernel import present
from .memory import channels_last, layout_of
from .primitive import Primitive, launch, scratchpad_bytes

__all__ = ["byte_batch_norm"]

_FLOAT32, _INT8 = np.dtype("float32"), np.dtype("int8")


class _ByteBatchNorm(Kernel):
    """A primitive with mean 0 and variance 1, so that scale and shift do everything."""

    name = "onednn:batch_norm_bytes"

    def __init__(self, request: KernelRequest[QuantizedBatchNorm], primitive: Primitive) -> None:
        self._operator, self._primitive = request.operator, primitive
        self._stays = all(request.is_constant[1:5])
        layout = layout_of(primitive.desc(Argument.SRC))
        rest = (None,) * (len(request.inputs) - 1)
        self.layouts = KernelLayouts((layout, *rest), (layout, None, None))
        self.inplace = ((0, 0),)
        self.scratchpad_bytes = scratchpad_bytes(primitive)
        self.uses_scratch = False

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes."""
        data, *parameters = (present(array) for array in arrays.inputs[:5])
        low, high = (present(array) for array in arrays.inputs[5:])
        out, *ends = (present(array) for array in arrays.outputs)
        channels = parameters[0].shape
        factors, shifts, mean = (np.zeros(channels, _FLOAT32) for _ in range(3))
        tensors = {
            Argument.SRC: data,
            Argument.MEAN: mean,
            Argument.VARIANCE: np.ones(channels, _FLOAT32),
            Argument.SCALE: factors,
            Argument.SHIFT: shifts,
            Argument.DST: out,
        }
        compute = launch(self._primitive, tensors, resources).call
        limits = (self._operator.min_calib_range, self._operator.max_calib_range)
        watch, seen = Watch(resources.versions[1:5]), math.nan

        def call() -> Any:
            nonlocal seen
            reach = max(abs(float(low[0])), abs(float(high[0])))
            if watch.poll() or reach != seen or not self._stays:
                factors[:], shifts[:] = self._affine(parameters, reach)
                seen = reach
            ends[0][0], ends[1][0] = limits
            return compute()

        return call

    def _affine(self, parameters: Sequence[Array], reach: float) -> tuple[Array, Array]:
        """Return the scale and shift of bytes with this reach."""
        # MXNet folds mean and variance into scale and shift, and then normalizes with mean 0 and
        # variance 1, where eps is added once more: hence the division by sqrt(1 + eps).
        gamma, beta, mean, variance = parameters
        per_unit = float(self._operator.steps[_INT8]) / float(self._operator.calibrated_reach)
        scale = gamma / np.sqrt(variance + np.float32(self._operator.eps))
        shift = (beta - mean * scale) * np.float32(per_unit)
        unit = per_unit * reach / float(self._operator.steps[_INT8])
        return scale * np.float32(unit / np.sqrt(1 + self._operator.eps)), shift


def byte_batch_norm(request: KernelRequest[QuantizedBatchNorm]) -> Kernel | None:
    """Prepare the batch norm of int8 images."""
    data = request.inputs[0]
    if data is None or data.dtype != _INT8 or len(data.shape) != 4 or 0 in data.shape:
        return None
    desc = channels_last(data.shape, DataType.INT8)
    primitive = Primitive.of(
        "batch_normalization_forward",
        Propagation.FORWARD_INFERENCE,
        desc,
        desc,
        0.0,
        Normalization.USE_GLOBAL_STATISTICS | Normalization.USE_SCALE | Normalization.USE_SHIFT,
    )
    return _ByteBatchNorm(request, primitive)
