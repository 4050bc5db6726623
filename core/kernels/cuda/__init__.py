"""Kernels in CUDA C++ for NVIDIA GPUs, compiled when they are first used (``launch.py``).

All store float32, float16 or bfloat16, in C order, and compute in float32. None uses atomic
operations on floating point numbers: every run adds in the same order, on every device.
"""

from __future__ import annotations

from ...capabilities import arrays, fused, layers
from ..kernel import BackendTraits, KernelTable
from .arithmetic import addition, arithmetic, arithmetic_backward, repeating_backward
from .batch_norm import (
    batch_norm,
    batch_norm_activation,
    batch_norm_activation_backward,
    batch_norm_backward,
    fused_batch_norm,
)
from .local_response import (
    fused_local_response,
    fused_local_response_backward,
    local_response,
    local_response_backward,
)
from .loss import cross_entropy, cross_entropy_backward, softmax_output_backward
from .moving import (
    concatenation,
    concatenation_backward,
    parting,
    parting_backward,
    repeating,
    shuffling,
    shuffling_backward,
    slicing,
    slicing_backward,
    transposition,
    transposition_backward,
)
from .pointwise import leaky_relu, leaky_relu_backward, pointwise, pointwise_backward
from .pooling import pooling, pooling_backward
from .reduction import reduction, reduction_backward
from .sample_norm import (
    l2_normalization,
    l2_normalization_backward,
    layer_norm,
    layer_norm_backward,
    sample_norm,
    sample_norm_backward,
)
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

__all__ = ["register_cuda"]


def register_cuda(table: KernelTable, backend: str = "cupy") -> None:
    """Register the kernels.

    Args:
        table: where.
        backend: name of the backend whose arrays they run on.
    """
    table.describe(backend, BackendTraits(stores_half=True))
    _register_elementwise(table, backend)
    _register_layers(table, backend)
    _register_softmax(table, backend)
    _register_arrays(table, backend)


def _register_elementwise(table: KernelTable, backend: str) -> None:
    table.register(backend, arrays.POINTWISE, pointwise, pointwise_backward)
    table.register(backend, arrays.LEAKY_RELU, leaky_relu, leaky_relu_backward)
    table.register(backend, fused.SILU, pointwise, pointwise_backward)
    table.register(backend, arrays.ARITHMETIC, arithmetic, arithmetic_backward)
    table.register(backend, arrays.ADDITION, addition)


def _register_layers(table: KernelTable, backend: str) -> None:
    table.register(backend, layers.POOLING, pooling, pooling_backward)
    table.register(backend, layers.BATCH_NORM, batch_norm, batch_norm_backward)
    table.register(backend, fused.BATCH_NORM, fused_batch_norm)
    table.register(
        backend, fused.BATCH_NORM_ACTIVATION, batch_norm_activation, batch_norm_activation_backward
    )
    table.register(backend, layers.LAYER_NORM, layer_norm, layer_norm_backward)
    table.register(backend, layers.INSTANCE_NORM, sample_norm, sample_norm_backward)
    table.register(backend, layers.GROUP_NORM, sample_norm, sample_norm_backward)
    table.register(backend, layers.L2_NORMALIZATION, l2_normalization, l2_normalization_backward)
    table.register(backend, layers.LOCAL_RESPONSE, local_response, local_response_backward)
    table.register(
        backend, fused.LOCAL_RESPONSE, fused_local_response, fused_local_response_backward
    )


def _register_softmax(table: KernelTable, backend: str) -> None:
    table.register(backend, arrays.SOFTMAX, softmax, softmax_backward)
    table.register(backend, arrays.SOFTMIN, softmin, softmin_backward)
    table.register(backend, arrays.LOG_SOFTMAX, log_softmax, log_softmax_backward)
    table.register(
        backend, arrays.SOFTMAX_ACTIVATION, softmax_activation, softmax_activation_backward
    )
    table.register(backend, arrays.SOFTMAX_OUTPUT, softmax_output, softmax_output_backward)
    table.register(backend, arrays.CROSS_ENTROPY, cross_entropy, cross_entropy_backward)


def _register_arrays(table: KernelTable, backend: str) -> None:
    table.register(backend, arrays.REDUCTION, reduction, reduction_backward)
    table.register(backend, arrays.BROADCAST, repeating, repeating_backward)
    table.register(backend, arrays.CONCATENATION, concatenation, concatenation_backward)
    table.register(backend, arrays.SPLIT, parting, parting_backward)
    table.register(backend, arrays.SLICING, slicing, slicing_backward)
    table.register(backend, arrays.TRANSPOSE, transposition, transposition_backward)
    table.register(backend, fused.SHUFFLE, shuffling, shuffling_backward)
