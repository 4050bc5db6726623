"""Layers of bytes whose sums are requantized in the same primitive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...capabilities.fused import Requantized
from ...capabilities.kinds import is_of
from ...capabilities.quantized import (
    SUMMING_ADDITION,
    SUMMING_CONVOLUTION,
    SUMMING_FULLY_CONNECTED,
    Calibrated,
    Quantized,
)
from ...types import Array
from ..kernel import Kernel, KernelArrays, KernelLayouts, KernelRequest, KernelResources, TensorSpec
from .constants import Algorithm, Argument, DataType
from .kernel import present
from .memory import MemoryDesc, channels_last, data_type_of, layout_of, plain
from .primitive import Primitive, launch, scratchpad_bytes
from .quantized import ByteSums, LayerScales, sums_of_convolution, sums_of_product

__all__ = ["requantized"]

_FLOAT32 = np.dtype("float32")
_BY_CHANNEL = (("scales", Argument.WEIGHTS, 0b1),)
_FIRST, _SECOND = (Argument.scales_of(one) for one in (Argument.SRC, Argument.SRC_1))


class _Layer(ByteSums):
    """A convolution or fully connected layer."""

    name = "onednn:layer_of_bytes"
    requantize: Calibrated

    def scales(self, scales: Array, bias: Array, ends: Sequence[float]) -> LayerScales:
        sums = super().scales(scales, bias, ends)
        unit = super().limits(scales, ends)[1] / self.requantize.steps[np.dtype("int32")]
        factor = np.float32(unit * _per_unit(self.requantize, self._out))
        return LayerScales(np.full_like(scales, factor), sums.shifts * factor, 1.0)

    def limits(self, scales: Array, ends: Sequence[float]) -> tuple[float, ...]:
        return _range(self.requantize, self._out)


def _per_unit(requantize: Calibrated, dtype: Any) -> float:
    """Return the quantization scale."""
    return float(requantize.steps[dtype]) / float(requantize.calibrated_reach)


def _range(requantize: Calibrated, dtype: Any) -> tuple[float, float]:
    """Return the range of the bytes."""
    reach = float(requantize.calibrated_reach)
    return (-reach if dtype == np.dtype("int8") else 0.0), reach


class _Addition(Kernel):
    """The sum of two tensors of bytes."""

    name = "onednn:addition_of_bytes"

    def __init__(
        self, request: KernelRequest[Requantized], source: Quantized, descs: Sequence[MemoryDesc]
    ) -> None:
        self._source, self._requantize = source, request.operator.requantize
        self._dtypes = [spec.dtype for spec in (*request.inputs[:2], request.outputs[0]) if spec]
        self._primitive = Primitive.of(
            "binary",
            Algorithm.BINARY_ADD,
            *descs,
            post=(("scales", Argument.SRC, 0), ("scales", Argument.SRC_1, 0)),
        )
        first, second, out = map(layout_of, descs)
        self.layouts = KernelLayouts((first, second, *[None] * 4), (out, None, None))
        self.scratchpad_bytes = scratchpad_bytes(self._primitive)
        self.uses_scratch = False
        self.inplace = ()

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that adds and requantizes."""
        first, second, *ends = (present(array) for array in arrays.inputs)
        out, low, high = (present(array) for array in arrays.outputs)
        factors = np.empty(1, _FLOAT32), np.empty(1, _FLOAT32)
        tensors = {
            Argument.SRC: first,
            Argument.SRC_1: second,
            Argument.DST: out,
            _FIRST: factors[0],
            _SECOND: factors[1],
        }
        descs = {_FIRST: plain((1,)), _SECOND: plain((1,))}
        add = launch(self._primitive, tensors, resources, descs).call
        limits = _range(self._requantize, self._dtypes[2])
        per_unit = _per_unit(self._requantize, self._dtypes[2])
        steps = [float(self._source.steps[dtype]) for dtype in self._dtypes[:2]]

        def call() -> Any:
            for index, factor in enumerate(factors):
                reach = max(abs(float(end[0])) for end in ends[2 * index : 2 * index + 2])
                factor[0] = reach / steps[index] * per_unit
            low[0], high[0] = limits
            return add()

        return call


def requantized(request: KernelRequest[Requantized]) -> Kernel | None:
    """Prepare a layer or an addition that is fused with the requantization of its sums."""
    source = request.operator.source
    made: _Layer | None = None
    if is_of(source, SUMMING_CONVOLUTION):
        made = sums_of_convolution(request.of(source), _Layer, _BY_CHANNEL)
    elif is_of(source, SUMMING_FULLY_CONNECTED):
        made = sums_of_product(request.of(source), _Layer, _BY_CHANNEL)
    elif is_of(source, SUMMING_ADDITION):
        return _addition(request, source)
    if made is not None:
        made.requantize = request.operator.requantize
    return made


def _addition(request: KernelRequest[Requantized], source: Quantized) -> Kernel | None:
    specs = [spec for spec in (*request.inputs[:2], request.outputs[0]) if spec is not None]
    if 0 in specs[0].shape or not specs[0].shape:
        return None
    return _Addition(request, source, [_arranged(spec) for spec in specs])


def _arranged(spec: TensorSpec) -> MemoryDesc:
    arrange = channels_last if len(spec.shape) > 3 else plain
    data_type: DataType = data_type_of(spec.dtype)
    return arrange(spec.shape, data_type)
