"""Batch normalization in training and inference, alone or followed by a ReLU or clip."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ...capabilities.arrays import HasFunction
from ...capabilities.functions import Function, is_relu
from ...capabilities.fused import BatchNormActivation, FusedBatchNorm
from ...capabilities.layers import BatchNorm
from ...types import Array, shape_size
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from .kernel import CudaKernel, element_macros, present, storage_type
from .launch import Call, call, divisor, function, in_turn

__all__ = [
    "batch_norm",
    "batch_norm_activation",
    "batch_norm_activation_backward",
    "batch_norm_backward",
    "fused_batch_norm",
]

_FLOAT32 = np.dtype("float32")
_SOURCE = "batch_norm.cu"
_WARP, _WARPS = 32, 8
_MAX_PARTS = 32
_WANTED_BLOCKS = 2048
_PART_OF_CHANNEL, _PART_OF_COLUMN = 4096, 64
"""Elements of a channel that are worth a block."""

_MOMENTS_BYTES, _SUMS_BYTES = 12, 8
"""Sizes of ``Moments`` and ``Sums``."""


@dataclasses.dataclass(frozen=True, slots=True)
class _View:
    """Data as (outer, channels, inner), and how sums over a channel are divided into parts.

    Attributes:
        outer, channels, inner: the shape.
        lanes: elements in 16 bytes.
        macros: of ``batch_norm.cu``.
        low, high: bounds of a clip that follows.
    """

    outer: int
    channels: int
    inner: int
    lanes: int
    macros: tuple[str, ...]
    low: float = 0.0
    high: float = 0.0

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.outer * self.channels * self.inner

    @property
    def count(self) -> int:
        """Number of elements of a channel."""
        return self.outer * self.inner

    @property
    def has_columns(self) -> bool:
        """Whether the channels lie side by side."""
        return self.inner == 1

    @property
    def blocks(self) -> int:
        """Blocks for all channels, if each is one part."""
        return -(-self.channels // _WARP) if self.has_columns else self.channels

    @property
    def part(self) -> int:
        """Number of elements of a channel in a part."""
        least = _PART_OF_COLUMN if self.has_columns else _PART_OF_CHANNEL
        parts = min(self.count // least, _MAX_PARTS, _WANTED_BLOCKS // self.blocks)
        each = -(-self.count // max(parts, 1))
        return -(-each // self.lanes) * self.lanes

    @property
    def parts(self) -> int:
        """Number of parts of a channel."""
        return -(-self.count // self.part)

    @property
    def grid(self) -> tuple[int, int]:
        """Blocks of the kernels that add up parts."""
        return (self.blocks, self.parts)

    @property
    def ends_grid(self) -> int:
        """Blocks of the kernels that join the parts, with a warp for each channel."""
        return -(-self.channels // _WARPS)

    @property
    def map_grid(self) -> int:
        """Blocks of the kernels that go through all elements."""
        return min(-(-self.size // (_WARP * _WARPS * self.lanes)), 4096)

    def divisors(self) -> tuple[Array, Array]:
        """Return the divisors by ``inner``, and by the number of packs in it; 0 if it has none."""
        packs = divisor(self.inner // self.lanes if self.inner % self.lanes == 0 else 1)
        if self.inner % self.lanes:
            packs["by"] = 0
        return divisor(self.inner), packs

    def function(self, name: str) -> Any:
        """Return a function of ``batch_norm.cu``."""
        return function(_SOURCE, name, *self.macros)


def _view(
    request: KernelRequest[Any], norm: BatchNorm, activation: HasFunction | None
) -> _View | None:
    """Return the view of a request's data; None if no kernel takes its tensors."""
    data = request.inputs[0]
    wide = (data, request.outputs[0], request.out_grads[0] if request.out_grads else None)
    grads = request.in_grads[:1] if request.in_grads else ()
    kind, follows = storage_type(*wide, *grads), _follows(activation)
    vectors = (*request.inputs[1:], *request.outputs[1:], *request.in_grads[1:])
    are_plain = all(
        one is None or (one.dtype == _FLOAT32 and one.layout is None) for one in vectors
    )
    if kind is None or data is None or follows is None or not are_plain:
        return None
    name, low, high = follows
    axis = norm.axis % len(data.shape)
    macros = (*element_macros(kind, data), f"FOLLOWS={name}")
    return _View(
        shape_size(data.shape[:axis]),
        data.shape[axis],
        shape_size(data.shape[axis + 1 :]),
        16 // data.dtype.itemsize,
        macros,
        low,
        high,
    )


def _follows(activation: HasFunction | None) -> tuple[str, float, float] | None:
    """Return the name of what follows in ``batch_norm.cu``, and bounds; None if there is none."""
    if activation is None:
        return "NOTHING", 0.0, 0.0
    known = activation.pointwise()
    if known is not None and is_relu(known):
        return ("KEEPING_RELU" if known.keeps_nan else "RELU"), 0.0, 0.0
    if known is not None and known.function is Function.CLIP:
        return "CLIP", float(known.alpha), float(known.beta)
    return None


def batch_norm(request: KernelRequest[BatchNorm]) -> Kernel | None:
    """Prepare the forward pass."""
    return _forward(request, request.operator, None)


def batch_norm_activation(request: KernelRequest[BatchNormActivation]) -> Kernel | None:
    """Prepare the forward pass followed by an activation."""
    return _forward(request, request.operator.norm, request.operator.activation)


def fused_batch_norm(request: KernelRequest[FusedBatchNorm]) -> Kernel | None:
    """Prepare the forward pass of inference without its statistics, with or without a ReLU."""
    fused = request.operator
    view = _view(request, fused.layer, fused.activation)
    return None if view is None else _inference(view, fused.layer, has_statistics=False)


def batch_norm_backward(request: KernelRequest[BatchNorm]) -> Kernel | None:
    """Prepare the backward pass."""
    return _backward(request, request.operator, None)


def batch_norm_activation_backward(request: KernelRequest[BatchNormActivation]) -> Kernel | None:
    """Prepare the backward pass of both."""
    return _backward(request, request.operator.norm, request.operator.activation)


def _forward(
    request: KernelRequest[Any], norm: BatchNorm, activation: HasFunction | None
) -> Kernel | None:
    view = _view(request, norm, activation)
    if view is None:
        return None
    if not request.is_train or norm.use_global_stats:
        return _inference(view, norm, has_statistics=True)

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        data, gamma, beta = map(present, arrays.inputs[:3])
        out, mean, inverse = map(present, arrays.outputs)
        parts = present(resources.scratchpad)
        join = call(
            view.function("batch_statistics"),
            view.ends_grid,
            parts,
            np.int32(view.parts),
            view.channels,
            float(norm.eps),
            mean,
            inverse,
        )
        vectors = (mean, inverse, None if norm.fix_gamma else gamma, beta, -1.0)
        return in_turn(
            [_moments(view, data, parts), join, _normalize(view, data, out, vectors, (None, None))]
        )

    scratch = view.parts * view.channels * _MOMENTS_BYTES
    return CudaKernel("batch_norm", bind, inplace=((0, 0),), scratchpad_bytes=scratch)


def _moments(view: _View, data: Array, parts: Array) -> Call:
    sizes = (view.channels, view.count, view.part)
    if view.has_columns:
        add_up = view.function("batch_moments_of_columns")
        return call(add_up, view.grid, data, parts, *sizes)
    return call(view.function("batch_moments"), view.grid, data, parts, *sizes, *view.divisors())


def _normalize(
    view: _View,
    data: Array,
    out: Array,
    vectors: tuple[Any, ...],
    statistics: tuple[Array | None, Array | None],
) -> Call:
    normalize = view.function("batch_normalize")
    divisors = divisor(view.inner), divisor(view.channels)
    bounds = view.low, view.high
    return call(
        normalize, view.map_grid, view.size, data, out, *vectors, *divisors, *bounds, *statistics
    )


def _inference(view: _View, norm: BatchNorm, *, has_statistics: bool) -> Kernel:
    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        data, gamma, beta, mean, variance = map(present, arrays.inputs)
        vectors = (mean, variance, None if norm.fix_gamma else gamma, beta, float(norm.eps))
        statistics = (arrays.outputs[1], arrays.outputs[2]) if has_statistics else (None, None)
        return _normalize(view, data, present(arrays.outputs[0]), vectors, statistics)

    return CudaKernel("batch_norm", bind, inplace=((0, 0),))


def _backward(
    request: KernelRequest[Any], norm: BatchNorm, activation: HasFunction | None
) -> Kernel | None:
    view = _view(request, norm, activation)
    if view is None:
        return None
    uses_batch = request.is_train and not norm.use_global_stats
    sums_bytes = view.parts * view.channels * _SUMS_BYTES

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        data, gamma = present(arrays.inputs[0]), None if norm.fix_gamma else arrays.inputs[1]
        beta = arrays.inputs[2] if activation is not None else None
        moving_mean, moving_var = present(arrays.inputs[3]), present(arrays.inputs[4])
        mean, spread, eps = moving_mean, moving_var, float(norm.eps)
        if uses_batch:
            mean, spread, eps = present(arrays.outputs[1]), present(arrays.outputs[2]), -1.0
        vectors = (mean, spread, gamma, beta, eps)
        grad, scratchpad = present(arrays.out_grads[0]), present(resources.scratchpad)
        parts, means = scratchpad, scratchpad[sums_bytes:] if uses_batch else None
        data_grad, gamma_grad, beta_grad = arrays.in_grads[:3]
        join = call(
            view.function("batch_totals"),
            view.ends_grid,
            parts,
            np.int32(view.parts),
            view.channels,
            float(view.count),
            means,
            gamma_grad,
            beta_grad,
            np.int32(norm.fix_gamma),
            mean,
            spread,
            float(norm.eps),
            float(norm.momentum),
            float(1 - norm.momentum),
            *((moving_mean, moving_var) if uses_batch else (None, None)),
        )
        calls = [_sums(view, data, grad, vectors, parts), join]
        if data_grad is not None:
            calls.append(
                call(
                    view.function("batch_normalize_backward"),
                    view.map_grid,
                    view.size,
                    data,
                    grad,
                    data_grad,
                    *vectors,
                    means,
                    divisor(view.inner),
                    divisor(view.channels),
                    view.low,
                    view.high,
                )
            )
        return in_turn(calls)

    return CudaKernel(
        "batch_norm_backward",
        bind,
        inplace=((0, 0),),
        backward_inputs=(0, 1, 3, 4) if activation is None else (0, 1, 2, 3, 4),
        backward_outputs=(1, 2) if uses_batch else (),
        scratchpad_bytes=sums_bytes + view.channels * _SUMS_BYTES,
    )


def _sums(view: _View, data: Array, grad: Array, vectors: tuple[Any, ...], parts: Array) -> Call:
    sizes, bounds = (view.channels, view.count, view.part), (view.low, view.high)
    if view.has_columns:
        add_up = view.function("batch_sums_of_columns")
        return call(add_up, view.grid, data, grad, *vectors, parts, *sizes, *bounds)
    add_up = view.function("batch_sums")
    rest = (*sizes, *view.divisors(), *bounds)
    return call(add_up, view.grid, data, grad, *vectors, parts, *rest)
