"""What scripts import from ``mxnet.util``: np-shape mode, the count of GPUs, the environment."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

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
    "use_np",
    "use_np_shape",
]

_T = TypeVar("_T", bound=Callable[..., Any])


def get_gpu_count() -> int:
    """Return the number of usable CUDA devices."""
    return gpu_count()


def is_np_array() -> bool:
    """Return whether operators return ``mx.np`` arrays: never, because there are none here."""
    return False


def use_np(function: _T) -> _T:
    """Replace a function that computes with ``mx.np`` arrays by one that raises an error.

    There are no such arrays here, but a module that marks some functions can be imported.
    """

    @functools.wraps(function)
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{function.__qualname__} is marked use_np, but there are no mx.np arrays; "
            "use mx.nd and mx.sym"
        )

    return cast(_T, refuse)


def getenv(name: str) -> str | None:
    """Return an environment variable; None if it is not set."""
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Set an environment variable; None unsets it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
