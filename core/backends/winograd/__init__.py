"""Convolutions of 3x3 by Winograd's minimal filtering: 2.25 times fewer multiplications.

The kernels are written in C with AVX-512 (``winograd.c``), compiled when modserve is installed and
called through ctypes. They work in oneDNN's layouts, between its kernels; where they were not
compiled, the processor has no AVX-512, or little would be won, oneDNN convolves.
"""

from __future__ import annotations

from core.backends.kernels import KernelTable
from core.backends.winograd.backward import convolution_backward
from core.backends.winograd.forward import convolution, fused_convolution
from core.backends.winograd.library import is_available

__all__ = ["is_available", "register_kernels"]


def register_kernels(table: KernelTable) -> None:
    """Enter the kernels, to be asked before those that the table has."""
    for operator in ("Convolution", "Convolution_v1"):
        table.register("numpy", operator)(convolution)
        table.register("numpy", operator, backward=True)(convolution_backward)
    table.register("numpy", "_plan_convolution")(fused_convolution)
