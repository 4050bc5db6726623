"""Environment settings of the engine, read once at import and refused when malformed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Config", "config", "read_config"]


@dataclass(frozen=True)
class Config:
    """Settings of the engine.

    Attributes:
        threads: of one executor's kernels and of BLAS (``MODSERVE_THREADS``), 0 for what there is.
        sharers: executors that share the processors with each other and with their server
            (``CORE_SHARERS``), 0 for a process that has them for itself.
        check_kernels: run every fast kernel against its reference (``CORE_CHECK_KERNELS``).
        native_kernels: use the kernels in C where they win (``CORE_NATIVE_KERNELS``).
        mirror: let backward passes recompute what is cheap (``MXNET_BACKWARD_DO_MIRROR``).
        mirror_step: of so many such steps, one is kept all the same (``MXNET_MIRROR_STEP``).
    """

    threads: int = 0
    sharers: int = 0
    check_kernels: bool = False
    native_kernels: bool = True
    mirror: bool = False
    mirror_step: int = 100


def read_config(environ: Mapping[str, str]) -> Config:
    """Parse the environment; raise ValueError naming the variable and its valid values."""
    threads = environ.get("MODSERVE_THREADS", "0")
    if not threads.isdecimal():
        raise ValueError(f"MODSERVE_THREADS is {threads!r}; expected 0 (all there are) or a count")
    sharers = environ.get("CORE_SHARERS", "0")
    if not sharers.isdecimal():
        raise ValueError(f"CORE_SHARERS is {sharers!r}; expected 0 (no server) or a count")
    step = environ.get("MXNET_MIRROR_STEP", "100")
    if not step.isdecimal() or int(step) == 0:
        raise ValueError(f"MXNET_MIRROR_STEP is {step!r}; expected a positive count")
    return Config(
        threads=int(threads),
        sharers=int(sharers),
        check_kernels=_read_flag(environ, "CORE_CHECK_KERNELS"),
        native_kernels=_read_flag(environ, "CORE_NATIVE_KERNELS", default="1"),
        mirror=_read_flag(environ, "MXNET_BACKWARD_DO_MIRROR"),
        mirror_step=int(step),
    )


def _read_flag(environ: Mapping[str, str], name: str, default: str = "0") -> bool:
    value = environ.get(name, default)
    if value not in ("0", "1"):
        raise ValueError(f"{name} is {value!r}; expected 0 or 1")
    return value == "1"


config = read_config(os.environ)
