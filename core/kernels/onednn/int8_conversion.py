"""Quantization and dequantization combined with reorders between layouts; pooling of bytes."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from ...capabilities.layers import Pooling
from ...capabilities.quantized import Converting, Quantized
from ...types import Array
from ..kernel import Kernel, KernelArrays, KernelLayouts, KernelRequest, KernelResources, TensorSpec
from .constants import Algorithm, Argument, Propagation
from .kernel import PrimitiveKernel, input_, output, present
from .memory import (
    MemoryDesc,
    any_layout,
    channels_last,
    data_type_of,
    desc_of,
    layout_of,
    loaded,
    plain,
)
from .pooling import Problem
from .primitive import Primitive, first_available, launch, scratchpad_bytes

__all__ = [
    "byte_activation",
    "byte_pooling",
    "dequantization",
    "quantization",
    "requantization",
]

_FLOAT32, _INT8, _UINT8 = map(np.dtype, ("float32", "int8", "uint8"))
_SCALE = Argument.scales_of(Argument.SRC)
_NEARLY_NOTHING = 1e-30
"""Replaces a reach of 0, to avoid division by zero."""


_O = TypeVar("_O", bound=Quantized)


class _Conversion(Kernel, abc.ABC, Generic[_O]):
    """Copies a tensor, multiplied by a factor that depends on ranges."""

    name = "onednn:convert_bytes"

    def __init__(self, request: KernelRequest[_O], source: MemoryDesc, target: MemoryDesc) -> None:
        self.operator = request.operator
        self.dtypes = _spec(request.inputs[0]).dtype, _spec(request.outputs[0]).dtype
        engine = loaded().engine
        self._primitive = Primitive.of(
            "reorder", source, engine, target, engine, post=(("scales", Argument.SRC, 0),)
        )
        ends = (None,) * (len(request.inputs) - 1), (None,) * (len(request.outputs) - 1)
        self.layouts = KernelLayouts(
            inputs=(layout_of(source), *ends[0]), outputs=(layout_of(target), *ends[1])
        )
        self.scratchpad_bytes = scratchpad_bytes(self._primitive)
        self.uses_scratch = False
        self.inplace = ()

    @abc.abstractmethod
    def set_range(self, data: Array, given: Sequence[Array], ends: Sequence[Array]) -> float:
        """Write the range of the output, given that of the input; return the factor."""

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that copies."""
        source, target = present(arrays.inputs[0]), present(arrays.outputs[0])
        factor = np.empty(1, _FLOAT32)
        tensors = {Argument.SRC: source, Argument.DST: target, _SCALE: factor}
        convert = launch(self._primitive, tensors, resources, {_SCALE: plain((1,))}).call
        set_range = partial(
            self.set_range,
            source.view(self.dtypes[0]),
            [present(array) for array in arrays.inputs[1:]],
            [present(array) for array in arrays.outputs[1:]],
        )

        def call() -> Any:
            factor[0] = set_range()
            return convert()

        return call


class _Ranging(_Conversion[Converting]):
    """A conversion to bytes, whose range may be known from calibration."""

    def _set_bytes(self, low: float, high: float, unit: float, ends: Sequence[Array]) -> float:
        """Write the range that the bytes represent; return the factor for numbers in these
        units."""
        operator, dtype = self.operator, self.dtypes[1]
        known = operator.min_calib_range, operator.max_calib_range
        low, high = (low if known[0] is None else known[0], high if known[1] is None else known[1])
        reach = max(abs(low), abs(high), _NEARLY_NOTHING)
        # int8 is symmetric about 0; uint8 begins at 0, unless MXNet writes the low end as it is.
        if dtype == _INT8:
            low, high = -max(abs(low), abs(high)), max(abs(low), abs(high))
        elif not operator.keeps_low:
            low, high = 0.0, max(abs(low), abs(high))
        ends[0][0], ends[1][0] = low, high
        return unit * float(operator.steps[dtype]) / reach


class _Quantization(_Ranging):
    def set_range(self, data: Array, given: Sequence[Array], ends: Sequence[Array]) -> float:
        low, high = (0.0, 0.0) if self.operator.is_calibrated else (data.min(), data.max())
        return self._set_bytes(float(low), float(high), 1.0, ends)


class _Requantization(_Ranging):
    def set_range(self, data: Array, given: Sequence[Array], ends: Sequence[Array]) -> float:
        unit = _reach(given) / float(self.operator.steps[self.dtypes[0]])
        low, high = (0.0, 0.0) if self.operator.is_calibrated else (data.min(), data.max())
        return self._set_bytes(float(low) * unit, float(high) * unit, unit, ends)


class _Dequantization(_Conversion[Quantized]):
    def set_range(self, data: Array, given: Sequence[Array], ends: Sequence[Array]) -> float:
        return _reach(given) / float(self.operator.steps[self.dtypes[0]])


def _reach(ends: Sequence[Array]) -> float:
    return max(abs(float(ends[0][0])), abs(float(ends[1][0])))


def _spec(spec: TensorSpec | None) -> TensorSpec:
    assert spec is not None
    return spec


def _last(spec: TensorSpec) -> MemoryDesc:
    """Return the layout of a tensor that layers of bytes use."""
    arrange = channels_last if len(spec.shape) > 3 else plain
    return arrange(spec.shape, data_type_of(spec.dtype))


def _source(spec: TensorSpec) -> MemoryDesc:
    """Return a tensor's layout, or the plain one if that layout has padding, which would count when
    the smallest and the largest element are looked for."""
    own = desc_of(spec)
    is_dense = own.nbytes == spec.dtype.itemsize * int(np.prod(spec.shape))
    return own if is_dense and own.dims == spec.shape else plain(spec.shape, own.data_type)


def quantization(request: KernelRequest[Converting]) -> Kernel | None:
    """Prepare quantization of float32, to channels last."""
    data, out = _spec(request.inputs[0]), _spec(request.outputs[0])
    if data.dtype != _FLOAT32 or 0 in data.shape or not data.shape:
        return None
    return _Quantization(request, _source(data), _last(out))


def requantization(request: KernelRequest[Converting]) -> Kernel | None:
    """Prepare quantization of int32 sums, in their layout."""
    data, out = _spec(request.inputs[0]), _spec(request.outputs[0])
    if 0 in data.shape or not data.shape:
        return None
    return _Requantization(request, _source(data), _last(out))


def dequantization(request: KernelRequest[Quantized]) -> Kernel | None:
    """Prepare dequantization to float32, in the bytes' layout."""
    data, out = _spec(request.inputs[0]), _spec(request.outputs[0])
    if 0 in data.shape or not data.shape:
        return None
    source = _source(data)
    target = _last(out) if source == _last(data) else plain(out.shape)
    return _Dequantization(request, source, target)


class _Passing(PrimitiveKernel):
    """An operator on bytes that keeps their range."""

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes and copies the range."""
        compute = super().bind(arrays, resources)
        low, high = (present(array) for array in arrays.inputs[1:])
        low_out, high_out = (present(array) for array in arrays.outputs[1:])

        def call() -> Any:
            low_out[0], high_out[0] = low[0], high[0]
            return compute()

        return call


def byte_pooling(request: KernelRequest[Pooling]) -> Kernel | None:
    """Prepare maximum and average pooling of bytes."""
    data, out = _spec(request.inputs[0]), _spec(request.outputs[0])
    if 0 in data.shape or request.operator.layout not in (None, "NCW", "NCHW", "NCDHW"):
        return None
    problem = Problem.of(request.operator, data.shape, out.shape, has_whole_windows=True)
    if problem is None:
        return None

    def primitive(desc: MemoryDesc) -> Primitive:
        return Primitive.of(
            "pooling_forward",
            Propagation.FORWARD_INFERENCE,
            problem.algorithm,
            desc,
            any_layout(out.shape, desc.data_type),
            *problem.window,
        )

    descs = dict.fromkeys((desc_of(data), _last(data)))
    operands = {Argument.SRC: input_(0), Argument.DST: output()}
    return _Passing("pooling_bytes", request, (first_available(primitive, descs), operands))


def byte_activation(request: KernelRequest[object]) -> Kernel | None:
    """Prepare the ReLU of bytes, in their layout."""
    data = _spec(request.inputs[0])
    if 0 in data.shape or not data.shape:
        return None
    desc = _source(data)
    primitive = Primitive.of(
        "eltwise_forward",
        Propagation.FORWARD_INFERENCE,
        Algorithm.ELTWISE_RELU,
        desc,
        desc,
        0.0,
        0.0,
    )
    operands = {Argument.SRC: input_(0), Argument.DST: output()}
    return _Passing("activation_bytes", request, (primitive, operands), inplace=((0, 0),))
