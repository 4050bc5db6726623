"""oneDNN: the CPU's kernels, in layouts of its own (Linux on x86-64)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .. import fused_operators
from ..fused_operators import Kind
from ..kernels import Kernel, KernelRequest, KernelTable, Prepare, register_layout
from .batch_norm import (
    batch_norm,
    batch_norm_backward,
    batch_norm_relu,
    batch_norm_relu_backward,
)
from .boxes import (
    concatenation_backward,
    parting,
    parting_backward,
    slicing,
    slicing_backward,
)
from .byte_batch_norm import byte_batch_norm
from .byte_conversion import (
    byte_activation,
    byte_pooling,
    dequantization,
    quantization,
    requantization,
)
from .clipping import clip_backward
from .convolution import convolution, convolution_backward
from .cross_entropy import cross_entropy, cross_entropy_backward
from .deconvolution import deconvolution, deconvolution_backward
from .eltwise import (
    activation,
    activation_backward,
    gate,
    gate_backward,
    leaky_relu,
    leaky_relu_backward,
)
from .fused import (
    fused_batch_norm,
    fused_convolution,
    fused_inner_product,
)
from .inner_product import inner_product, inner_product_backward
from .joining import arithmetic, concatenation
from .l2_normalization import l2_normalization, l2_normalization_backward
from .layer_norm import layer_norm, layer_norm_backward
from .library import is_available, library
from .local_response import local_response, local_response_backward
from .loss import softmax_output_backward
from .memory import BlockedLayout
from .permuting import (
    shuffling,
    shuffling_backward,
    transposition,
    transposition_backward,
)
from .pooling import pooling, pooling_backward
from .product import product, product_backward
from .product_rule import division_backward, multiplication_backward
from .quantized import (
    byte_convolution,
    byte_product,
    sums_convolution,
    sums_product,
)
from .recurrent import (
    recurrent,
    recurrent_backward,
    recurrent_layer,
    recurrent_layer_backward,
)
from .reduction import (
    extreme,
    norm,
    product_of,
    total,
    total_backward,
)
from .reorder import reorder
from .repeating import repeating, repeating_backward
from .requantized import requantized
from .resizing import (
    averaging,
    averaging_backward,
    resizing,
    resizing_backward,
)
from .sample_norm import group_norm, instance_norm, sample_norm_backward
from .softmax import (
    log_softmax,
    log_softmax_backward,
    softmax,
    softmax_activation,
    softmax_activation_backward,
    softmax_backward,
    softmax_output,
    softmin,
    softmin_backward,
)
from .sum_rule import addition_backward
from .upsampling import upsampling, upsampling_backward

__all__ = ["is_available", "library", "register_kernels"]

O = TypeVar("O")  # noqa: E741 - an operator

_FORWARD: dict[str, Prepare] = {
    "Activation": activation,
    "BatchNorm": batch_norm,
    "BatchNorm_v1": batch_norm,
    "Concat": concatenation,
    "Convolution": convolution,
    "Convolution_v1": convolution,
    "Crop": slicing,
    "Deconvolution": deconvolution,
    "FullyConnected": inner_product,
    "GroupNorm": group_norm,
    "InstanceNorm": instance_norm,
    "L2Normalization": l2_normalization,
    "LayerNorm": layer_norm,
    "LeakyReLU": leaky_relu,
    "Pooling": pooling,
    "RNN": recurrent,
    "SliceChannel": parting,
    "SwapAxis": transposition,
    "UpSampling": upsampling,
    "_contrib_AdaptiveAvgPooling2D": averaging,
    "_contrib_BilinearResize2D": resizing,
    "_contrib_dequantize": dequantization,
    "_contrib_quantize_v2": quantization,
    "_contrib_quantized_act": byte_activation,
    "_contrib_quantized_batch_norm": byte_batch_norm,
    "_contrib_quantized_conv": sums_convolution,
    "_contrib_quantized_fully_connected": sums_product,
    "_contrib_quantized_pooling": byte_pooling,
    "_contrib_requantize": requantization,
    "SoftmaxActivation": softmax_activation,
    "SoftmaxOutput": softmax_output,
    "_div_scalar": activation,
    "_minus_scalar": activation,
    "_mul_scalar": activation,
    "_np_sum": total,
    "_sg_mkldnn_conv": byte_convolution,
    "_sg_mkldnn_fully_connected": byte_product,
    fused_operators.ACCUMULATE.name: arithmetic,
    "_npi_add": arithmetic,
    "_npi_multiply": arithmetic,
    "_npi_subtract": arithmetic,
    "_plus_scalar": activation,
    "_rminus_scalar": activation,
    "abs": activation,
    "broadcast_add": arithmetic,
    "broadcast_axis": repeating,
    "broadcast_div": arithmetic,
    "broadcast_like": repeating,
    "broadcast_mul": arithmetic,
    "broadcast_sub": arithmetic,
    "broadcast_to": repeating,
    "batch_dot": product,
    "dot": product,
    "elemwise_add": arithmetic,
    "elemwise_div": arithmetic,
    "elemwise_mul": arithmetic,
    "elemwise_sub": arithmetic,
    "log_softmax": log_softmax,
    "max": extreme,
    "mean": total,
    "min": extreme,
    "norm": norm,
    "prod": product_of,
    "sigmoid": activation,
    "slice": slicing,
    "slice_axis": slicing,
    "slice_like": slicing,
    "softmax": softmax,
    "softmax_cross_entropy": cross_entropy,
    "softmin": softmin,
    "sqrt": activation,
    "square": activation,
    "sum": total,
    "tanh": activation,
    "transpose": transposition,
}
_BACKWARD: dict[str, Prepare] = {
    "Activation": activation_backward,
    "BatchNorm": batch_norm_backward,
    "BatchNorm_v1": batch_norm_backward,
    "Concat": concatenation_backward,
    "Convolution": convolution_backward,
    "Convolution_v1": convolution_backward,
    "Crop": slicing_backward,
    "Deconvolution": deconvolution_backward,
    "FullyConnected": inner_product_backward,
    "GroupNorm": sample_norm_backward,
    "InstanceNorm": sample_norm_backward,
    "L2Normalization": l2_normalization_backward,
    "LayerNorm": layer_norm_backward,
    "LeakyReLU": leaky_relu_backward,
    "Pooling": pooling_backward,
    "abs": activation_backward,
    "batch_dot": product_backward,
    "broadcast_add": addition_backward,
    "broadcast_axis": repeating_backward,
    "broadcast_div": division_backward,
    "broadcast_like": repeating_backward,
    "broadcast_mul": multiplication_backward,
    "broadcast_sub": addition_backward,
    "broadcast_to": repeating_backward,
    "clip": clip_backward,
    "dot": product_backward,
    "elemwise_div": division_backward,
    "elemwise_mul": multiplication_backward,
    "RNN": recurrent_backward,
    "SliceChannel": parting_backward,
    "SwapAxis": transposition_backward,
    "UpSampling": upsampling_backward,
    "_contrib_AdaptiveAvgPooling2D": averaging_backward,
    "_contrib_BilinearResize2D": resizing_backward,
    "SoftmaxActivation": softmax_activation_backward,
    "SoftmaxOutput": softmax_output_backward,
    "_div_scalar": activation_backward,
    "_mul_scalar": activation_backward,
    "_np_sum": total_backward,
    "_rminus_scalar": activation_backward,
    "log_softmax": log_softmax_backward,
    "mean": total_backward,
    "relu": activation_backward,
    "sigmoid": activation_backward,
    "slice": slicing_backward,
    "slice_axis": slicing_backward,
    "slice_like": slicing_backward,
    "softmax": softmax_backward,
    "softmax_cross_entropy": cross_entropy_backward,
    "softmin": softmin_backward,
    "sqrt": activation_backward,
    "square": activation_backward,
    "sum": total_backward,
    "tanh": activation_backward,
    "transpose": transposition_backward,
}
"""By canonical name of the operator."""


def register_kernels(table: KernelTable) -> None:
    """Enter all kernels; they answer with None where the library is not there."""
    register_layout(BlockedLayout, reorder)
    for is_backward, prepares in ((False, _FORWARD), (True, _BACKWARD)):
        for operator, prepare in prepares.items():
            table.register("numpy", operator, backward=is_backward)(_if_available(prepare))
    _register_fused(table)


def _register_fused(table: KernelTable) -> None:
    def forward(kind: Kind[O], prepare: Callable[[KernelRequest, O], Kernel | None]) -> None:
        table.register_fused("numpy", kind, _fused_if_available(prepare))

    def both(
        kind: Kind[O],
        prepare: Callable[[KernelRequest, O], Kernel | None],
        prepare_backward: Callable[[KernelRequest, O], Kernel | None],
    ) -> None:
        forward(kind, prepare)
        table.register_fused("numpy", kind, _fused_if_available(prepare_backward), backward=True)

    forward(fused_operators.CONVOLUTION, fused_convolution)
    forward(fused_operators.FULLY_CONNECTED, fused_inner_product)
    forward(fused_operators.BATCH_NORM, fused_batch_norm)
    forward(fused_operators.REQUANTIZED, requantized)
    both(fused_operators.BATCH_NORM_RELU, batch_norm_relu, batch_norm_relu_backward)
    both(fused_operators.LOCAL_RESPONSE, local_response, local_response_backward)
    both(fused_operators.GATE, gate, gate_backward)
    both(fused_operators.SHUFFLE, shuffling, shuffling_backward)
    both(fused_operators.RECURRENT, recurrent_layer, recurrent_layer_backward)


def _if_available(prepare: Prepare) -> Prepare:
    def prepare_if_available(request: KernelRequest) -> Kernel | None:
        return prepare(request) if is_available() else None

    return prepare_if_available


def _fused_if_available(
    prepare: Callable[[KernelRequest, O], Kernel | None],
) -> Callable[[KernelRequest, O], Kernel | None]:
    def prepare_if_available(request: KernelRequest, operator: O) -> Kernel | None:
        return prepare(request, operator) if is_available() else None

    return prepare_if_available
