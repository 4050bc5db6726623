"""What scripts import from ``mxnet.util``: np-shape mode, the count of GPUs, the environment."""

from __future__ import annotations

import os

from ..backends import gpu_count
from ..ndarray.np_shape import is_np_shape, np_shape, set_np_shape, use_np_shape

__all__ = [
    "get_gpu_count",
    "getenv",
    "is_np_array",
    "is_np_shape",
    "np_shape",
    "set_np_shape",
    "setenv",
    "use_np_shape",
]


def get_gpu_count() -> int:
    """Return the number of usable CUDA devices."""
    return gpu_count()


def is_np_array() -> bool:
    """Tell whether operators return ``mx.np`` arrays: never, there is one kind of array here."""
    return False


def getenv(name: str) -> str | None:
    """Return an environment variable, None where it is not set."""
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Set an environment variable; None unsets it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
