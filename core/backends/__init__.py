"""Backends: the only package that depends on a device library."""

from __future__ import annotations

from functools import cache
from typing import Protocol

from ..config import config
from ..kernels.cuda import register_cuda
from ..kernels.kernel import kernels
from ..kernels.native import register_kernels as register_native
from ..kernels.onednn import register_kernels as register_onednn
from ..kernels.onednn.bfloat16 import register_bfloat16
from ..kernels.onednn.library import has_bfloat16, is_available
from ..kernels.threads import limit_blas, thread_count
from .backend import Backend
from .cupy import CupyBackend, gpu_count
from .numpy import NumpyBackend

__all__ = [
    "Backend",
    "Device",
    "NumpyBackend",
    "backend_of",
    "gpu_count",
    "has_bfloat16",
    "has_onednn",
]


class Device(Protocol):
    """The device that a context denotes."""

    @property
    def device_type(self) -> str:
        """``"gpu"``; any other value means the CPU."""

    @property
    def device_id(self) -> int:
        """Number of the device among those of its type."""


_numpy = NumpyBackend()
# What is registered last is tried first: kernels in bfloat16, then those in C, then oneDNN's.
register_onednn(kernels)
register_native(kernels)
register_bfloat16(kernels)
register_cuda(kernels)
limit_blas(thread_count(config))
if config.in_bfloat16 and not has_bfloat16():
    raise ValueError(
        "MODSERVE_MATH is 'bfloat16', but this processor has no instructions for it (AVX512-BF16 "
        "or AMX), or oneDNN is not installed; unset it, or set it to float32"
    )


@cache
def _cupy_backend(device_id: int) -> Backend:
    return CupyBackend(device_id)


def backend_of(context: Device) -> Backend:
    """Return the backend of a context; raise DeviceError if its device does not exist."""
    return _cupy_backend(context.device_id) if context.device_type == "gpu" else _numpy


def has_onednn() -> bool:
    """Return whether oneDNN's kernels are available."""
    return is_available()
