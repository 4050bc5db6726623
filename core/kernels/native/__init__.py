"""Kernels in C with AVX-512, for operators that oneDNN runs slowly or lacks.

They are compiled when modserve is installed (``hatch_build.py``), and called through ctypes. Two
work in oneDNN's layouts, between its kernels: convolutions of 3x3, 1xN and Nx1 by Winograd's
minimal filtering, which needs about half of the multiplications, and batch normalization in
training, which leaves its results in the cache. Fully connected layers in training are shared among
the threads as their weights are in the optimizer, and read these as they are stored; those of a
single row and softmax of few elements need less time here than oneDNN needs to begin. LSTM and GRU
in inference compute their gates before the sums leave the registers. The others are for operators
that oneDNN lacks: sampling of feature maps at positions given by another input, alignment of labels
with steps, special functions; and for those of ``piecewise``, where oneDNN treats NaN otherwise
than MXNet. oneDNN or the reference runs if the kernels were not compiled, the processor has no
AVX-512, or the gain would be small. ``chain`` runs consecutive primitives of oneDNN, and such calls
between them, by one call.
"""

from __future__ import annotations

from typing import TypeVar

from ...capabilities import arrays, fused, layers
from ...capabilities import sampling as kinds
from ...capabilities.alignment import CTC
from ...capabilities.kinds import Kind
from ..kernel import KernelTable, Prepare
from .batch_norm import (
    batch_norm,
    batch_norm_activation,
    batch_norm_activation_backward,
    batch_norm_backward,
)
from .concatenation import concatenation
from .convolution_backward import convolution_backward
from .convolution_forward import convolution, fused_convolution
from .ctc import ctc_loss
from .deconvolution import deconvolution
from .deformable import deformable_convolution
from .deformable_psroi import moved_regions
from .embedding import embedding
from .gemm import dense_layer, dense_layer_backward
from .gemv import fully_connected, fused_fully_connected
from .half import cast
from .im2col import columns_to_image, image_to_columns
from .library import is_available
from .piecewise import piecewise, piecewise_backward
from .recurrent import recurrent, recurrent_layer
from .roi_pool import psroi_pool, roi_pool
from .rroi_align import rotated_regions
from .sampling import bilinear_sampler, spatial_transformer
from .softmax import softmax, softmax_output
from .softmax_gradient import softmax_output_backward
from .special import special
from .topk import leading

__all__ = ["is_available", "register_kernels"]

O = TypeVar("O")  # noqa: E741 - an operator


def register_kernels(table: KernelTable) -> None:
    """Register the kernels, which are tried before those already in the table."""
    table.register("numpy", layers.CONVOLUTION, convolution, convolution_backward)
    table.register("numpy", fused.CONVOLUTION, fused_convolution)
    table.register("numpy", layers.FULLY_CONNECTED, dense_layer, dense_layer_backward)
    table.register("numpy", layers.FULLY_CONNECTED, fully_connected)
    table.register("numpy", fused.FULLY_CONNECTED, fused_fully_connected)
    table.register("numpy", layers.RNN, recurrent)
    table.register("numpy", arrays.SOFTMAX, softmax)
    table.register("numpy", arrays.SOFTMAX_OUTPUT, softmax_output, softmax_output_backward)
    table.register("numpy", fused.RECURRENT, recurrent_layer)
    table.register("numpy", layers.BATCH_NORM, batch_norm, batch_norm_backward)
    table.register(
        "numpy", fused.BATCH_NORM_ACTIVATION, batch_norm_activation, batch_norm_activation_backward
    )
    table.register("numpy", arrays.CONCATENATION, concatenation)
    table.register("numpy", arrays.TOP_K, leading)
    table.register("numpy", layers.DECONVOLUTION, deconvolution)
    table.register("numpy", layers.EMBEDDING, embedding)
    table.register("numpy", kinds.RROI_ALIGN, rotated_regions)
    _both(table, CTC, ctc_loss)
    _both(table, layers.IMAGE_TO_COLUMNS, image_to_columns)
    _both(table, layers.COLUMNS_TO_IMAGE, columns_to_image)
    _both(table, arrays.CAST, cast)
    _both(table, arrays.POINTWISE, special)
    table.register("numpy", arrays.POINTWISE, piecewise, piecewise_backward)
    _both(table, kinds.BILINEAR_SAMPLER, bilinear_sampler)
    _both(table, kinds.SPATIAL_TRANSFORMER, spatial_transformer)
    _both(table, kinds.DEFORMABLE_CONVOLUTION, deformable_convolution)
    _both(table, kinds.ROI_POOL, roi_pool)
    _both(table, kinds.PSROI_POOL, psroi_pool)
    _both(table, kinds.DEFORMABLE_PSROI_POOL, moved_regions)


def _both(table: KernelTable, kind: Kind[O], prepare: Prepare[O]) -> None:
    """Register one function that prepares the kernels of both passes."""
    table.register("numpy", kind, prepare, prepare)
