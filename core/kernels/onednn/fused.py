"""Fused layers, each by a single primitive with post-operations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...capabilities.arrays import HasFunction
from ...capabilities.fused import FusedBatchNorm, FusedConvolution, FusedDense
from ...capabilities.layers import BatchNorm, Convolution
from ...types import Array
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from .constants import Argument, Normalization, Propagation
from .conv_as_matmul import full_width_convolution
from .convolution import Problem, has_channels_first
from .eltwise import post_operation
from .inner_product import inner_product
from .kernel import Operand, PrimitiveKernel, are_float32, input_, output, present
from .memory import any_layout, channels_last, desc_of, plain
from .primitive import PostOperation, Primitive, launch
from .reorder import make_reorder

__all__ = ["fold", "fused_batch_norm", "fused_convolution", "fused_inner_product"]

_FLOAT32 = np.dtype("float32")
_SUM: PostOperation = ("sum", 1.0)
_LANES = 16
"""Number of channels in a vector register."""

Operands = Mapping[Argument, Operand]


class _Fused(PrimitiveKernel):
    """A convolution that may accumulate into its output, which can share the residual's memory."""

    def __init__(
        self,
        request: KernelRequest[object],
        fused: FusedConvolution,
        primitive: Primitive,
        operands: Operands,
    ) -> None:
        super().__init__("convolution_fused", request, (primitive, operands))
        self._residual: int | None = None
        if fused.has_residual:
            # Not an argument of the primitive: the output must contain the residual beforehand.
            self._residual = len(request.inputs) - 1
            self.inplace = ((self._residual, 0),)
            inputs = (*self.layouts.inputs[:-1], self.layouts.outputs[0])
            self.layouts = dataclasses.replace(self.layouts, inputs=inputs)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes, after copying the residual to the output if needed."""
        return self._after_copy(super().bind(arrays, resources), arrays)

    def _after_copy(self, compute: Callable[[], Any], arrays: KernelArrays) -> Callable[[], Any]:
        if self._residual is None:
            return compute
        residual, out = present(arrays.inputs[self._residual]), present(arrays.outputs[0])
        if residual.ctypes.data == out.ctypes.data:
            return compute

        def call() -> Any:
            np.copyto(out, residual)
            return compute()

        return call


class _Folded(_Fused):
    """A convolution with the following batch norm folded into its weights."""

    def __init__(
        self,
        request: KernelRequest[object],
        fused: FusedConvolution,
        norm: BatchNorm,
        problem: Problem,
        primitive: Primitive,
    ) -> None:
        ends = {Argument.SRC: input_(0), Argument.DST: output()}
        super().__init__(request, fused, primitive, ends)
        self.name = "onednn:convolution_folded"
        self._layer, self._norm = fused.layer, norm
        self._unfolded, self._primitive = plain(problem.weight), primitive
        self._channels = problem.output[1]

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes with folded weights, which the plan caches."""
        desc = self._primitive.desc(Argument.WEIGHTS)
        count = 5 if self._layer.no_bias else 6
        kept = resources.prepack(
            (desc, self._unfolded, self._norm.eps, self._norm.fix_gamma),
            range(1, 1 + count),
            desc.nbytes + self._channels * _FLOAT32.itemsize,
            partial(self._fold, arrays.inputs[1 : 1 + count], resources),
        )
        tensors = {
            Argument.SRC: present(arrays.inputs[0]),
            Argument.WEIGHTS: kept[: desc.nbytes],
            Argument.BIAS: kept[desc.nbytes :],
            Argument.DST: present(arrays.outputs[0]),
        }
        return self._after_copy(launch(self._primitive, tensors, resources).call, arrays)

    def _fold(
        self, inputs: Sequence[Array | None], resources: KernelResources, kept: Array
    ) -> None:
        """Write the weights in the primitive's layout, and the bias."""
        weight, bias = fold(self._layer, self._norm, inputs)
        desc = self._primitive.desc(Argument.WEIGHTS)
        kept[desc.nbytes :].view(_FLOAT32)[...] = bias
        tensors = {Argument.SRC: weight, Argument.DST: kept[: desc.nbytes]}
        launch(make_reorder(self._unfolded, desc), tensors, resources)()


def fold(
    layer: Convolution, norm: BatchNorm, inputs: Sequence[Array | None]
) -> tuple[Array, Array]:
    """Fold a batch norm into the convolution before it; return the new weights and bias:
    weight · scale, and (bias - mean) · scale + beta.

    Args:
        layer: operator ``Convolution``.
        norm: operator ``BatchNorm``.
        inputs: weight, bias if the layer has one, gamma, beta, mean and variance.
    """
    weight, *others = map(present, inputs)
    bias = 0 if layer.no_bias else others.pop(0)
    gamma, beta, mean, variance = others
    scale = 1 / np.sqrt(variance + np.float32(norm.eps))
    if not norm.fix_gamma:
        scale *= gamma
    return weight * scale.reshape(-1, *(1 for _ in weight.shape[1:])), (bias - mean) * scale + beta


def fused_convolution(request: KernelRequest[FusedConvolution]) -> Kernel | None:
    """Prepare a convolution with an optional batch norm, residual and activation."""
    fused = request.operator
    out = request.outputs[0]
    if not are_float32(request) or not has_channels_first(fused.layer) or out is None:
        return None
    if fused.batch_norm is None and not fused.has_residual:
        simple = full_width_convolution(request, fused.layer, _activation(fused.activation))
        if simple is not None:
            return simple
    problem = Problem.of(fused.layer, request.inputs, out)
    post = (*([_SUM] if fused.has_residual else []), *_activation(fused.activation))
    primitive = problem.forward(request, post, with_bias=fused.batch_norm is not None)
    if fused.batch_norm is not None:
        return _Folded(request, fused, fused.batch_norm, problem, primitive)
    operands = {Argument.SRC: input_(0), Argument.WEIGHTS: input_(1), Argument.DST: output()}
    if problem.bias:
        operands[Argument.BIAS] = input_(2)
    return _Fused(request, fused, primitive, operands)


def fused_batch_norm(request: KernelRequest[FusedBatchNorm]) -> Kernel | None:
    """Prepare an inference batch norm with its ReLU, in the layout of the data.

    Plain data is reordered to channels-last: oneDNN's batch norm takes three times as long on plain
    images, and a convolution after it needs them reordered anyway.
    """
    fused = request.operator
    norm, data = fused.layer, request.inputs[0]
    if not are_float32(request) or data is None:
        return None
    flags = Normalization.USE_GLOBAL_STATISTICS | Normalization.USE_SHIFT
    if not norm.fix_gamma:
        flags |= Normalization.USE_SCALE
    if fused.activation is not None:
        flags |= Normalization.FUSE_RELU
    desc = desc_of(data)
    # Only whole vectors of channels: for others oneDNN has no code in AVX-512.
    if len(data.shape) > 2 and desc == plain(data.shape) and data.shape[1] % _LANES == 0:
        desc = channels_last(data.shape)
    primitive = Primitive.of(
        "batch_normalization_forward",
        Propagation.FORWARD_INFERENCE,
        desc,
        any_layout(desc.dims, desc.data_type),
        norm.eps,
        flags,
    )
    operands = {
        Argument.SRC: input_(0),
        Argument.SHIFT: input_(2),
        Argument.MEAN: input_(3),
        Argument.VARIANCE: input_(4),
        Argument.DST: output(),
    }
    if not norm.fix_gamma:
        operands[Argument.SCALE] = input_(1)
    return PrimitiveKernel("batch_norm_fused", request, (primitive, operands), inplace=((0, 0),))


def fused_inner_product(request: KernelRequest[FusedDense]) -> Kernel | None:
    """Prepare a fully connected layer with its activation."""
    fused = request.operator
    return inner_product(request.of(fused.layer), _activation(fused.activation))


def _activation(activation: HasFunction | None) -> tuple[PostOperation, ...]:
    return () if activation is None else (post_operation(activation),)
