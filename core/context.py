"""Devices under the name that scripts import them by (``mxnet.context``)."""

from __future__ import annotations

from core.backends import gpu_count
from core.device import Context, cpu, cpu_pinned, current_context, gpu

__all__ = ["Context", "cpu", "cpu_pinned", "current_context", "gpu", "num_gpus"]


def num_gpus() -> int:
    """Return the number of usable CUDA devices."""
    return gpu_count()
