"""Layers of bytes.

oneDNN computes ``sums · scale + bias``, adds a residual, applies the activation, divides by the
output's scale and then rounds once. Scales depend on the ranges that accompany the tensors and are
updated when these change.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from ...capabilities.arrays import HasFunction
from ...capabilities.functions import Function
from ...capabilities.quantized import (
    FusedQuantizedConvolution,
    FusedQuantizedDense,
    FusedQuantizedLayer,
    QuantizedLayer,
    SummingConvolution,
    SummingLayer,
)
from ...types import Array, DType, Shape, shape_size
from ..kernel import (
    Kernel,
    KernelArrays,
    KernelLayouts,
    KernelRequest,
    KernelResources,
    Layout,
    TensorSpec,
    Watch,
)
from .constants import Algorithm, Argument, DataType, Propagation
from .convolution import Problem
from .eltwise import post_operation
from .kernel import present
from .memory import MemoryDesc, any_layout, channels_last, data_type_of, layout_of, plain
from .primitive import PostOperation, Primitive, launch, scratchpad_bytes
from .reorder import make_reorder

__all__ = [
    "ByteSums",
    "LayerScales",
    "byte_convolution",
    "byte_product",
    "sums_convolution",
    "sums_of_convolution",
    "sums_of_product",
    "sums_product",
]

_FLOAT32, _INT8, _INT32, _UINT8 = map(np.dtype, ("float32", "int8", "int32", "uint8"))
_WEIGHT_SCALES = Argument.scales_of(Argument.WEIGHTS)
_OUT_SCALE = Argument.scales_of(Argument.DST)
_DTYPES = {DataType.INT8: _INT8, DataType.UINT8: _UINT8}
_LARGEST_BIAS = 2.0**30
"""Largest bias that is rounded in the scale of the sums; MXNet limits it to half of an int32's
range, so that the sums cannot overflow."""
_NEARLY_NOTHING = 1e-30
"""Replaces a reach of 0, to avoid division by zero."""


@dataclasses.dataclass(frozen=True)
class LayerScales:
    """Scales and biases of the sums by channel, and the scale of the output."""

    factors: Array
    shifts: Array
    divisor: float


_L = TypeVar("_L", bound=QuantizedLayer)


class _ByteLayer(Kernel, abc.ABC, Generic[_L]):
    """Base: a layer whose quantized weights are cached, if changes of the weights can be detected.

    Args:
        request: the step.
        primitive: has scales of the weights.
        weight: layout of the weights before the reorder.
        divides: whether the primitive also has a scale of the output.
    """

    def __init__(
        self,
        request: KernelRequest[_L],
        primitive: Primitive,
        weight: MemoryDesc,
        *,
        divides: bool,
    ) -> None:
        self._layer, self._divides = request.operator, divides
        self._primitive, self._weight = primitive, weight
        self._tensors = len(self._layer.tensor_names())
        self._channels = primitive.desc(Argument.DST).dims[1]
        self._data, self._out = _spec(request.inputs[0]).dtype, _spec(request.outputs[0]).dtype
        self._stays = all(request.is_constant[index] for index in self.parameters)
        self.scratchpad_bytes = scratchpad_bytes(primitive)
        self.uses_scratch = False

    @property
    def parameters(self) -> range:
        """Positions of the inputs from which the weights are computed."""
        return range(1, self._tensors)

    @abc.abstractmethod
    def whole(self, inputs: Sequence[Array]) -> tuple[Array, Array, Array]:
        """Return int8 weights, their scales and the bias, each by channel or a single one."""

    @abc.abstractmethod
    def scales(self, scales: Array, bias: Array, ends: Sequence[float]) -> LayerScales:
        """Return the scales of the layer, given these and the ranges of the inputs."""

    @abc.abstractmethod
    def limits(self, scales: Array, ends: Sequence[float]) -> tuple[float, ...]:
        """Return the range of the output; empty if the output has none."""

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes with weights cached by the plan."""
        inputs, desc = arrays.inputs, self._primitive.desc(Argument.WEIGHTS)
        make = partial(self._keep, [inputs[index] for index in self.parameters], resources)
        nbytes = desc.nbytes + 2 * self._channels * _FLOAT32.itemsize
        if self._stays:
            key = (desc, self._weight, *self._key())
            kept = resources.prepack(key, self.parameters, nbytes, make)
        else:
            kept = resources.allocate((nbytes,), _UINT8)
        scales, bias = kept[desc.nbytes :].view(_FLOAT32).reshape(2, self._channels)
        factors, shifts = (np.empty(self._channels, _FLOAT32) for _ in range(2))
        divisor = np.empty(1, _FLOAT32)
        tensors = {
            Argument.SRC: present(inputs[0]),
            Argument.WEIGHTS: kept[: desc.nbytes],
            Argument.BIAS: shifts,
            Argument.DST: present(arrays.outputs[0]),
        }
        if self._out != _INT32:  # int32 sums are not scaled
            tensors[_WEIGHT_SCALES] = factors
        if self._divides:
            tensors[_OUT_SCALE] = divisor
        compute = launch(self._primitive, tensors, resources, self._scale_descs()).call
        ranges = [present(array) for array in inputs[self._tensors :]]
        targets = [present(array) for array in arrays.outputs[1:]]
        watch = Watch(resources.versions[index] for index in self.parameters)
        seen: list[float] = []
        limits: tuple[float, ...] = ()

        def call() -> Any:
            nonlocal seen, limits
            if not self._stays:  # weights without versions may have changed unnoticed
                make(kept)
            now = [float(end[0]) for end in ranges]
            if watch.poll() or now != seen or not self._stays:
                found = self.scales(scales, bias, now)
                factors[:], shifts[:], divisor[:] = found.factors, found.shifts, found.divisor
                limits = self.limits(scales, now)
                seen = now
            for target, limit in zip(targets, limits, strict=False):
                target[0] = limit
            return compute()

        return call

    def _keep(
        self, inputs: Sequence[Array | None], resources: KernelResources, kept: Array
    ) -> None:
        desc = self._primitive.desc(Argument.WEIGHTS)
        weight, scales, bias = self.whole([present(array) for array in inputs])
        vectors = kept[desc.nbytes :].view(_FLOAT32).reshape(2, self._channels)
        vectors[0], vectors[1] = scales, bias
        tensors = {
            Argument.SRC: np.ascontiguousarray(weight.reshape(self._weight.dims)),
            Argument.DST: kept[: desc.nbytes],
        }
        launch(make_reorder(self._weight, desc), tensors, resources)()

    def _key(self) -> tuple[Any, ...]:
        """Return the cache key of the weights: what they depend on besides arrays."""
        return ()

    def _scale_descs(self) -> dict[Argument, MemoryDesc]:
        return {_WEIGHT_SCALES: plain((self._channels,)), _OUT_SCALE: plain((1,))}

    def _per_unit(self, dtype: DType, low: float, high: float) -> float:
        """Return the quantization scale of numbers in this range."""
        return float(self._layer.steps[dtype]) / max(abs(low), abs(high), _NEARLY_NOTHING)


def _spec(spec: TensorSpec | None) -> TensorSpec:
    assert spec is not None
    return spec


_F = TypeVar("_F", bound=FusedQuantizedLayer)


class _FusedLayer(_ByteLayer[_F]):
    """Base: a layer of MXNet's oneDNN graphs with its fused stages."""

    def limits(self, scales: Array, ends: Sequence[float]) -> tuple[float, ...]:
        known = self._layer.min_calib_range, self._layer.max_calib_range
        return tuple(end for end in known if end is not None)

    def _out_per_unit(self) -> float:
        return float(self._layer.steps[self._out]) / float(self._layer.calibrated_reach)


class _Convolution(_FusedLayer[FusedQuantizedConvolution]):
    """A convolution with its fused stages.

    Intermediate numbers are in units of the residual or, without one, of the output.
    """

    name = "onednn:convolution_bytes"

    def __init__(
        self,
        request: KernelRequest[FusedQuantizedConvolution],
        problem: Problem,
        primitive: Primitive,
    ) -> None:
        has_sum = request.operator.stages.has_sum
        weight = plain(problem.weight, DataType.INT8)
        super().__init__(request, primitive, weight, divides=has_sum)
        layouts: list[Layout | None] = [None] * len(request.inputs)
        layouts[0] = layout_of(primitive.desc(Argument.SRC))
        self._other: int | None = None
        if has_sum:
            self._other = self._tensors - 1
            layouts[self._other] = layout_of(_last(_spec(request.inputs[self._other])))
            self.inplace = ((self._other, 0),)
        out = layout_of(_last(_spec(request.outputs[0])))
        self.layouts = KernelLayouts(inputs=tuple(layouts), outputs=(out, None, None))

    @property
    def parameters(self) -> range:
        return range(1, self._tensors - self._divides)

    def _key(self) -> tuple[Any, ...]:
        norm = self._layer.stages.norm
        return () if norm is None else (norm.eps, norm.fix_gamma)

    def whole(self, inputs: Sequence[Array]) -> tuple[Array, Array, Array]:
        weight, bias = self._layer.folded(np, inputs)
        scales = self._layer.weight_scales(np, weight)
        return _as_bytes(weight, scales), scales, np.float32(0) if bias is None else bias

    def scales(self, scales: Array, bias: Array, ends: Sequence[float]) -> LayerScales:
        in_sums = scales * np.float32(self._per_unit(self._data, *ends[:2]))
        if self._out == _INT32:
            whole = np.rint(bias * in_sums).clip(-_LARGEST_BIAS, _LARGEST_BIAS)
            return LayerScales(in_sums, whole, 1.0)
        out = unit = self._out_per_unit()
        if self._other is not None:
            unit = self._per_unit(self._other_dtype, *ends[2:])
        return LayerScales(unit / in_sums, _rounded(bias, in_sums) * unit, unit / out)

    def limits(self, scales: Array, ends: Sequence[float]) -> tuple[float, ...]:
        if self._out != _INT32:
            return super().limits(scales, ends)
        whole, steps = self._layer.whole_steps, self._layer.steps
        data = max(abs(ends[0]), abs(ends[1])) / whole[self._data]
        weight = float(steps[_INT8] / scales[0]) / whole[_INT8]
        return -data * weight * 2.0**31, data * weight * 2.0**31

    @property
    def _other_dtype(self) -> DType:
        return _DTYPES[self._primitive.desc(Argument.DST).data_type]

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that first copies the residual to the output and then convolves."""
        compute = super().bind(arrays, resources)
        if self._other is None:
            return compute
        other, out = (
            present(array).reshape(-1).view(_UINT8)
            for array in (arrays.inputs[self._other], arrays.outputs[0])
        )
        if other.ctypes.data == out.ctypes.data:
            return compute

        def call() -> Any:
            np.copyto(out, other)
            return compute()

        return call


class _Product(_FusedLayer[FusedQuantizedDense]):
    """A fully connected layer with its activation; intermediate numbers are real."""

    name = "onednn:inner_product_bytes"

    def __init__(
        self, request: KernelRequest[FusedQuantizedDense], primitive: Primitive, weight: MemoryDesc
    ) -> None:
        divides = _spec(request.outputs[0]).dtype != _FLOAT32
        super().__init__(request, primitive, weight, divides=divides)

    def whole(self, inputs: Sequence[Array]) -> tuple[Array, Array, Array]:
        weight, *bias = inputs
        scales = np.ones(self._channels, _FLOAT32)
        if self._layer.channel_wise_quantize:
            scales = self._layer.weight_scales(np, weight)
            weight = _as_bytes(weight, scales)
        return weight, scales, bias[0] if bias else np.float32(0)

    def scales(self, scales: Array, bias: Array, ends: Sequence[float]) -> LayerScales:
        in_sums = scales * np.float32(self._per_unit(self._data, *ends[:2]))
        if self._layer.channel_wise_quantize:
            shifts = _rounded(bias, in_sums)
        else:
            in_sums = in_sums * np.float32(self._per_unit(_INT8, *ends[2:4]))
            shifts = bias / in_sums
            if len(ends) > 4:
                # Rounded half away from zero, as C's `round`, by which MXNet makes int32 of it.
                whole = bias / np.float32(self._per_unit(_INT8, *ends[4:])) * in_sums
                shifts = np.trunc(whole + np.copysign(np.float32(0.5), whole)) / in_sums
        divisor = 1 / self._out_per_unit() if self._divides else 1.0
        return LayerScales(1 / in_sums, shifts, divisor)


class ByteSums(_ByteLayer[SummingLayer]):
    """A layer that outputs int32 sums; its int8 bias is rescaled to the sums."""

    name = "onednn:sums_of_bytes"

    def __init__(
        self,
        request: KernelRequest[SummingLayer],
        primitive: Primitive,
        weight: MemoryDesc,
        layouts: tuple[Layout | None, Layout | None] = (None, None),
    ) -> None:
        super().__init__(request, primitive, weight, divides=False)
        rest = (None,) * (len(request.inputs) - 1)
        self.layouts = KernelLayouts((layouts[0], *rest), (layouts[1], None, None))

    def whole(self, inputs: Sequence[Array]) -> tuple[Array, Array, Array]:
        weight, *bias = inputs
        return weight, np.float32(1), bias[0] if bias else np.float32(0)

    def scales(self, scales: Array, bias: Array, ends: Sequence[float]) -> LayerScales:
        shifts = bias
        if len(ends) > 4:
            in_sums = self._per_unit(self._data, *ends[:2]) * self._per_unit(_INT8, *ends[2:4])
            # MXNet assigns to int32, which truncates.
            shifts = np.trunc(bias * np.float32(in_sums / self._per_unit(_INT8, *ends[4:])))
        return LayerScales(scales, shifts, 1.0)

    def limits(self, scales: Array, ends: Sequence[float]) -> tuple[float, ...]:
        # What an int32 at the end of its range stands for.
        whole = self._layer.whole_steps
        data = max(abs(ends[0]), abs(ends[1])) / whole[self._data]
        weight = max(abs(ends[2]), abs(ends[3])) / whole[_INT8]
        return -data * weight * 2.0**31, data * weight * 2.0**31


def _as_bytes(weight: Array, scales: Array) -> Array:
    scaled = np.rint(weight * scales.reshape(-1, *(1 for _ in weight.shape[1:])))
    return scaled.clip(-128, 127).astype(_INT8)


def _rounded(bias: Array, in_sums: Array) -> Array:
    """Return a bias rounded in the scale of the sums, if it is small enough for that."""
    whole = np.rint(bias * in_sums)
    return np.where(np.abs(whole) <= _LARGEST_BIAS, whole / in_sums, bias)


def _last(spec: TensorSpec) -> MemoryDesc:
    return channels_last(spec.shape, data_type_of(spec.dtype))


def byte_convolution(request: KernelRequest[FusedQuantizedConvolution]) -> Kernel | None:
    """Prepare a fused convolution of bytes; with a residual only if the output's range is known."""
    fused, out = request.operator, _spec(request.outputs[0])
    has_sums = out.dtype == _INT32
    if not fused.quantized or (has_sums and fused.stages.has_sum) or request.is_train:
        return None
    stages, tensors = fused.stages, len(fused.tensor_names())
    other = _spec(request.inputs[tensors - 1]) if stages.has_sum else out
    # The result is written over the residual, in its dtype: uint8 would cut off what is below 0.
    if other.dtype == _UINT8 != out.dtype:
        return None
    problem = Problem.of(stages.layer, request.inputs, out)
    by_channel = 0b11 if problem.has_groups else 0b1
    post: list[PostOperation] = [] if has_sums else [("scales", Argument.WEIGHTS, by_channel)]
    if stages.has_sum:
        post += [("scales", Argument.DST, 0), *_function(stages.activation), ("sum", 1.0)]
        post += _function(stages.last_activation)
    else:
        post += _function(stages.activation)
    primitive = Primitive.of(
        "convolution_forward",
        Propagation.FORWARD_INFERENCE,
        Algorithm.CONVOLUTION_DIRECT,
        _last(_spec(request.inputs[0])),
        any_layout(problem.weight, DataType.INT8),
        plain((problem.output[1],)),
        channels_last(out.shape, data_type_of(other.dtype)),
        *problem.window,
        post=tuple(post),
    )
    return _Convolution(request, problem, primitive)


_S = TypeVar("_S", bound=ByteSums)


def sums_convolution(request: KernelRequest[SummingConvolution]) -> Kernel | None:
    """Prepare a convolution of bytes that outputs int32 sums."""
    return sums_of_convolution(request, ByteSums)


def sums_of_convolution(
    request: KernelRequest[SummingConvolution], kind: type[_S], post: tuple[PostOperation, ...] = ()
) -> _S | None:
    """Prepare a convolution of bytes with post-operations on its sums."""
    data, out = _spec(request.inputs[0]), _spec(request.outputs[0])
    operator = request.operator
    if request.is_train or operator.layout not in (None, "NCW", "NCHW", "NCDHW"):
        return None
    problem = Problem.of(operator.layer, request.inputs, out)
    if problem.has_groups:  # output channels are then two axes of the weights
        post = tuple((*one[:-1], 0b11) if one[0] == "scales" else one for one in post)
    primitive = Primitive.of(
        "convolution_forward",
        Propagation.FORWARD_INFERENCE,
        Algorithm.CONVOLUTION_DIRECT,
        _last(data),
        any_layout(problem.weight, DataType.INT8),
        plain((problem.output[1],)),
        _last(out),
        *problem.window,
        post=post,
    )
    layouts = layout_of(_last(data)), layout_of(_last(out))
    return kind(request, primitive, plain(problem.weight, DataType.INT8), layouts)


def sums_product(request: KernelRequest[SummingLayer]) -> Kernel | None:
    """Prepare a fully connected layer of bytes that outputs int32 sums."""
    return sums_of_product(request, ByteSums)


def sums_of_product(
    request: KernelRequest[SummingLayer], kind: type[_S], post: tuple[PostOperation, ...] = ()
) -> _S | None:
    """Prepare a fully connected layer of bytes with post-operations on its sums."""
    if request.is_train:
        return None
    weight = _spec(request.inputs[1]).shape
    primitive = _product(request, weight, post)
    return kind(request, primitive, plain(weight, DataType.INT8))


def byte_product(request: KernelRequest[FusedQuantizedDense]) -> Kernel | None:
    """Prepare a fused fully connected layer of bytes that outputs bytes or floats."""
    fused, out = request.operator, _spec(request.outputs[0])
    is_summed = not (fused.is_calibrated or fused.enable_float_output)
    if not fused.quantized or is_summed or request.is_train:
        return None
    weight = _spec(request.inputs[1]).shape
    post: list[PostOperation] = [("scales", Argument.WEIGHTS, 0b1)]
    if out.dtype != _FLOAT32:
        post.append(("scales", Argument.DST, 0))
    post += _function(fused.stages.activation)
    primitive = _product(request, weight, tuple(post))
    return _Product(request, primitive, plain(weight, DataType.INT8))


def _product(
    request: KernelRequest[object], weight: Shape, post: tuple[PostOperation, ...]
) -> Primitive:
    data, out = _spec(request.inputs[0]), _spec(request.outputs[0])
    rows = shape_size(data.shape) // weight[1]
    return Primitive.of(
        "inner_product_forward",
        Propagation.FORWARD_INFERENCE,
        plain((rows, weight[1]), data_type_of(data.dtype)),
        any_layout(weight, DataType.INT8),
        plain(weight[:1]),
        plain((rows, weight[0]), data_type_of(out.dtype)),
        post=post,
    )


def _function(activation: HasFunction | None) -> list[PostOperation]:
    """Return an activation; None for a clip, which the range of the bytes implies."""
    function = None if activation is None else activation.pointwise()
    if activation is None or (function is not None and function.function is Function.CLIP):
        return []
    return [post_operation(activation)]
