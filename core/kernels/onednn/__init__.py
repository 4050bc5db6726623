"""Kernels that call oneDNN, in oneDNN's own layouts, for CPUs (Linux on x86-64)."""

from __future__ import annotations

from typing import TypeVar

from ...capabilities import arrays, layers
from ...capabilities import fused as fused_kinds
from ...capabilities import quantized as byte_kinds
from ...capabilities.kinds import Kind
from ..kernel import BackendTraits, Kernel, KernelRequest, KernelTable, Prepare, register_layout
from .arithmetic_backward import arithmetic_backward
from .batch_norm import (
    batch_norm,
    batch_norm_activation,
    batch_norm_activation_backward,
    batch_norm_backward,
)
from .boxes import concatenation_backward, parting, parting_backward, slicing, slicing_backward
from .broadcast import repeating, repeating_backward
from .convolution import convolution, convolution_backward
from .cross_entropy import cross_entropy, cross_entropy_backward
from .deconvolution import deconvolution, deconvolution_backward
from .eltwise import activation, activation_backward, leaky_relu, leaky_relu_backward
from .fused import fused_batch_norm, fused_convolution, fused_inner_product
from .inner_product import inner_product, inner_product_backward
from .instance_norm import group_norm, instance_norm, sample_norm_backward
from .int8_batch_norm import byte_batch_norm
from .int8_conversion import (
    byte_activation,
    byte_pooling,
    dequantization,
    quantization,
    requantization,
)
from .joining import arithmetic, concatenation
from .l2_normalization import l2_normalization, l2_normalization_backward
from .layer_norm import layer_norm, layer_norm_backward
from .library import is_available, library
from .local_response import local_response, local_response_backward
from .loss import softmax_output_backward
from .memory import BlockedLayout
from .pooling import pooling, pooling_backward
from .product import product, product_backward
from .quantized import byte_convolution, byte_product, sums_convolution, sums_product
from .recurrent import recurrent, recurrent_backward, recurrent_layer, recurrent_layer_backward
from .reduction import reduction, reduction_backward
from .reorder import reorder
from .requantized import requantized
from .resizing import averaging, averaging_backward, resizing, resizing_backward
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
from .transpose import shuffling, shuffling_backward, transposition, transposition_backward
from .upsampling import upsampling, upsampling_backward

__all__ = ["is_available", "library", "register_kernels"]

O = TypeVar("O")  # noqa: E741 - an operator


def register_kernels(table: KernelTable) -> None:
    """Register all kernels; without the library they decline every request."""
    table.describe("numpy", BackendTraits(blocks_channels=True))
    register_layout(BlockedLayout, reorder)
    _register_elementwise(table)
    _register_layers(table)
    _register_norms(table)
    _register_softmax(table)
    _register_arrays(table)
    _register_quantized(table)
    _register_fused(table)


def _register_elementwise(table: KernelTable) -> None:
    _add(table, arrays.POINTWISE, activation, activation_backward)
    _add(table, arrays.LEAKY_RELU, leaky_relu, leaky_relu_backward)
    _add(table, arrays.ARITHMETIC, arithmetic, arithmetic_backward)


def _register_layers(table: KernelTable) -> None:
    _add(table, layers.CONVOLUTION, convolution, convolution_backward)
    _add(table, layers.DECONVOLUTION, deconvolution, deconvolution_backward)
    _add(table, layers.FULLY_CONNECTED, inner_product, inner_product_backward)
    _add(table, layers.POOLING, pooling, pooling_backward)
    _add(table, layers.ADAPTIVE_AVERAGE, averaging, averaging_backward)
    _add(table, layers.BILINEAR_RESIZE, resizing, resizing_backward)
    _add(table, layers.UP_SAMPLING, upsampling, upsampling_backward)
    _add(table, layers.RNN, recurrent, recurrent_backward)


def _register_norms(table: KernelTable) -> None:
    _add(table, layers.BATCH_NORM, batch_norm, batch_norm_backward)
    _add(table, layers.GROUP_NORM, group_norm, sample_norm_backward)
    _add(table, layers.INSTANCE_NORM, instance_norm, sample_norm_backward)
    _add(table, layers.LAYER_NORM, layer_norm, layer_norm_backward)
    _add(table, layers.L2_NORMALIZATION, l2_normalization, l2_normalization_backward)


def _register_softmax(table: KernelTable) -> None:
    _add(table, arrays.SOFTMAX, softmax, softmax_backward)
    _add(table, arrays.SOFTMIN, softmin, softmin_backward)
    _add(table, arrays.LOG_SOFTMAX, log_softmax, log_softmax_backward)
    _add(table, arrays.SOFTMAX_ACTIVATION, softmax_activation, softmax_activation_backward)
    _add(table, arrays.SOFTMAX_OUTPUT, softmax_output, softmax_output_backward)
    _add(table, arrays.CROSS_ENTROPY, cross_entropy, cross_entropy_backward)


def _register_arrays(table: KernelTable) -> None:
    _add(table, arrays.MATMUL, product, product_backward)
    _add(table, arrays.REDUCTION, reduction, reduction_backward)
    _add(table, arrays.SLICING, slicing, slicing_backward)
    _add(table, arrays.SPLIT, parting, parting_backward)
    _add(table, arrays.CONCATENATION, concatenation, concatenation_backward)
    _add(table, arrays.TRANSPOSE, transposition, transposition_backward)
    _add(table, arrays.BROADCAST, repeating, repeating_backward)


def _register_quantized(table: KernelTable) -> None:
    _add(table, byte_kinds.QUANTIZATION, quantization)
    _add(table, byte_kinds.REQUANTIZATION, requantization)
    _add(table, byte_kinds.DEQUANTIZATION, dequantization)
    _add(table, byte_kinds.ACTIVATION, byte_activation)
    _add(table, byte_kinds.BATCH_NORM, byte_batch_norm)
    _add(table, byte_kinds.POOLING, byte_pooling)
    _add(table, byte_kinds.SUMMING_CONVOLUTION, sums_convolution)
    _add(table, byte_kinds.SUMMING_FULLY_CONNECTED, sums_product)
    _add(table, byte_kinds.FUSED_CONVOLUTION, byte_convolution)
    _add(table, byte_kinds.FUSED_FULLY_CONNECTED, byte_product)


def _register_fused(table: KernelTable) -> None:
    _add(table, fused_kinds.CONVOLUTION, fused_convolution)
    _add(table, fused_kinds.FULLY_CONNECTED, fused_inner_product)
    _add(table, fused_kinds.BATCH_NORM, fused_batch_norm)
    _add(table, fused_kinds.REQUANTIZED, requantized)
    _add(
        table,
        fused_kinds.BATCH_NORM_ACTIVATION,
        batch_norm_activation,
        batch_norm_activation_backward,
    )
    _add(table, fused_kinds.LOCAL_RESPONSE, local_response, local_response_backward)
    _add(table, fused_kinds.SILU, activation, activation_backward)
    _add(table, fused_kinds.SHUFFLE, shuffling, shuffling_backward)
    _add(table, fused_kinds.RECURRENT, recurrent_layer, recurrent_layer_backward)


def _add(
    table: KernelTable,
    kind: Kind[O],
    forward: Prepare[O],
    backward: Prepare[O] | None = None,
) -> None:
    table.register(
        "numpy",
        kind,
        _if_available(forward),
        None if backward is None else _if_available(backward),
    )


def _if_available(prepare: Prepare[O]) -> Prepare[O]:
    # Asked at each request and not here: oneDNN is loaded with the first kernel, so that a script
    # can still set the number of threads after the import.
    def prepare_if_available(request: KernelRequest[O]) -> Kernel | None:
        return prepare(request) if is_available() else None

    return prepare_if_available
