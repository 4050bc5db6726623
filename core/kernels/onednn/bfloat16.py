"""Layers in bfloat16: what they multiply has its 8 significant bits, the sums are float32.

Only where a request allows it, and the processor has instructions for it (``has_bfloat16``). They
multiply twice as many numbers at a time, and those take half of the memory. A tensor of float32 is
kept in bfloat16 as it is kept in blocks of channels: by its layout. So weights are rounded once,
and data where it is reordered for the layer anyway. Convolutions write bfloat16, too, because what
they write is large; what comes between them works on that. Products of matrices write float32.
"""

from __future__ import annotations

from typing import TypeVar

from ...capabilities import arrays, layers
from ...capabilities import fused as fused_kinds
from ...capabilities.arrays import MatMul
from ...capabilities.fused import FusedConvolution, FusedDense
from ...capabilities.layers import Convolution, Dense
from ...types import shape_size
from ..kernel import Kernel, KernelRequest, KernelTable, Prepare
from .convolution import convolution
from .eltwise import activation
from .fused import fused_batch_norm, fused_convolution, fused_inner_product
from .inner_product import inner_product
from .joining import arithmetic, concatenation
from .library import has_bfloat16
from .pooling import pooling
from .product import product, sizes_of

__all__ = ["register_bfloat16"]

O = TypeVar("O")  # noqa: E741 - an operator

_FEWEST_PRODUCTS = 1 << 18
"""Multiplications from which half the time saves more than rounding the data costs."""
_PRODUCTS_PER_NUMBER = 32
"""Multiplications with each number of both sides, from which rounding these pays."""


def register_bfloat16(table: KernelTable) -> None:
    """Register the kernels: layers, and what stands between convolutions."""
    table.register_rounding("numpy", layers.CONVOLUTION, _convolution)
    table.register_rounding("numpy", fused_kinds.CONVOLUTION, _fused_convolution)
    table.register_rounding("numpy", layers.FULLY_CONNECTED, _inner_product)
    table.register_rounding("numpy", fused_kinds.FULLY_CONNECTED, _fused_inner_product)
    table.register_rounding("numpy", arrays.MATMUL, _product)
    table.register_rounding("numpy", layers.POOLING, _between(pooling))
    table.register_rounding("numpy", fused_kinds.BATCH_NORM, _between(fused_batch_norm))
    table.register_rounding("numpy", arrays.POINTWISE, _between(activation))
    table.register_rounding("numpy", arrays.ARITHMETIC, _between(arithmetic))
    table.register_rounding("numpy", arrays.CONCATENATION, _between(concatenation))


def _convolution(request: KernelRequest[Convolution]) -> Kernel | None:
    return _named(convolution(request)) if _may_round(request, weight=1) else None


def _fused_convolution(request: KernelRequest[FusedConvolution]) -> Kernel | None:
    return _named(fused_convolution(request)) if _may_round(request, weight=1) else None


def _inner_product(request: KernelRequest[Dense]) -> Kernel | None:
    if not _may_round(request, weight=1) or not _is_large(request):
        return None
    return _named(inner_product(request))


def _fused_inner_product(request: KernelRequest[FusedDense]) -> Kernel | None:
    if not _may_round(request, weight=1) or not _is_large(request):
        return None
    return _named(fused_inner_product(request))


def _product(request: KernelRequest[MatMul]) -> Kernel | None:
    if not _may_round(request) or not _has_long_sides(request):
        return None
    return _named(product(request))


def _between(prepare: Prepare[O]) -> Prepare[O]:
    """Return the function for those requests that have an input in bfloat16."""

    def prepare_between(request: KernelRequest[O]) -> Kernel | None:
        return _named(prepare(request)) if request.has_rounded else None

    return prepare_between


def _may_round(request: KernelRequest[object], weight: int | None = None) -> bool:
    """Return whether a layer may multiply in bfloat16, and its weight, if any, is rounded once."""
    stays = weight is None or request.is_constant[weight]
    return request.in_bfloat16 and stays and has_bfloat16()


def _is_large(request: KernelRequest[object]) -> bool:
    """Return whether half the time of a layer saves more than rounding its data costs."""
    data, weight = request.inputs[:2]
    assert data is not None
    assert weight is not None
    return shape_size(data.shape) * weight.shape[0] >= _FEWEST_PRODUCTS


def _has_long_sides(request: KernelRequest[MatMul]) -> bool:
    """Return whether half the time of a product saves more than rounding both sides costs."""
    batch, rows, inner, columns = sizes_of(request)
    products = batch * rows * inner * columns
    rounded = batch * inner * (rows + columns)
    return products >= max(_FEWEST_PRODUCTS, _PRODUCTS_PER_NUMBER * rounded)


def _named(kernel: Kernel | None) -> Kernel | None:
    """Name a kernel after bfloat16 if it reads any."""
    if kernel is not None and any(
        one is not None and one.is_rounded for one in kernel.layouts.inputs
    ):
        kernel.name += "_bfloat16"
    return kernel
