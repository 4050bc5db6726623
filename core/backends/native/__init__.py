"""Kernels in C with AVX-512, for what oneDNN does slowly or not at all.

They are compiled when modserve is installed (``hatch_build.py``), and called by ctypes. Two work in
oneDNN's layouts, between its kernels: convolutions of 3x3 by Winograd's minimal filtering, which
takes 2.25 times fewer multiplications, and batch normalization in training, which leaves what it
writes in the cache. The others are for what oneDNN has not: maps that are read at places told by
another input. Where they were not compiled, the processor has no AVX-512, or little would be won,
oneDNN or the reference runs.
"""

from __future__ import annotations

from ..fused_operators import BATCH_NORM_RELU, CONVOLUTION
from ..kernels import KernelTable
from .batch_norm import (
    batch_norm,
    batch_norm_backward,
    batch_norm_relu,
    batch_norm_relu_backward,
)
from .convolution_backward import convolution_backward
from .convolution_forward import convolution, fused_convolution
from .deformable import deformable_convolution
from .library import is_available
from .moved_regions import moved_regions
from .regions import region_maxima, region_means
from .sampling import bilinear_sampler, spatial_transformer

__all__ = ["is_available", "register_kernels"]


def register_kernels(table: KernelTable) -> None:
    """Enter the kernels, to be asked before those that the table has."""
    for operator in ("Convolution", "Convolution_v1"):
        table.register("numpy", operator)(convolution)
        table.register("numpy", operator, backward=True)(convolution_backward)
    table.register_fused("numpy", CONVOLUTION, fused_convolution)
    for operator in ("BatchNorm", "BatchNorm_v1"):
        table.register("numpy", operator)(batch_norm)
        table.register("numpy", operator, backward=True)(batch_norm_backward)
    table.register_fused("numpy", BATCH_NORM_RELU, batch_norm_relu)
    table.register_fused("numpy", BATCH_NORM_RELU, batch_norm_relu_backward, backward=True)
    for operator, prepare in {
        "BilinearSampler": bilinear_sampler,
        "SpatialTransformer": spatial_transformer,
        "ROIPooling": region_maxima,
        "_contrib_PSROIPooling": region_means,
        "_contrib_DeformablePSROIPooling": moved_regions,
        "_contrib_DeformableConvolution": deformable_convolution,
        "_contrib_ModulatedDeformableConvolution": deformable_convolution,
    }.items():
        table.register("numpy", operator)(prepare)
        table.register("numpy", operator, backward=True)(prepare)
