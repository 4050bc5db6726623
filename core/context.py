"""Devices under MXNet's import path (``mxnet.context``)."""

from __future__ import annotations

from .backends import backend_of, gpu_count
from .device import Context, cpu, cpu_pinned, current_context, gpu

__all__ = [
    "Context",
    "cpu",
    "cpu_pinned",
    "current_context",
    "gpu",
    "gpu_memory_info",
    "num_gpus",
]


def num_gpus() -> int:
    """Return the number of usable CUDA devices."""
    return gpu_count()


def gpu_memory_info(device_id: int = 0) -> tuple[int, int]:
    """Return the free and the total bytes of a CUDA device.

    Raises:
        DeviceError: there is no such device.
    """
    memory = backend_of(gpu(device_id)).memory()
    assert memory is not None
    used, total = memory
    return total - used, total
