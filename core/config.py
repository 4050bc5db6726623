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
        threads: of one executor's kernels and of BLAS (``MODSERVE_THREADS``), 0 for all cores.
        check_kernels: run every fast kernel against its reference (``CORE_CHECK_KERNELS``).
    """

    threads: int = 0
    check_kernels: bool = False


def read_config(environ: Mapping[str, str]) -> Config:
    """Parse the environment; raise ValueError naming the variable and its valid values."""
    threads = environ.get("MODSERVE_THREADS", "0")
    if not threads.isdecimal():
        raise ValueError(f"MODSERVE_THREADS is {threads!r}; expected 0 (all cores) or a count")
    check = environ.get("CORE_CHECK_KERNELS", "0")
    if check not in ("0", "1"):
        raise ValueError(f"CORE_CHECK_KERNELS is {check!r}; expected 0 or 1")
    return Config(threads=int(threads), check_kernels=check == "1")


config = read_config(os.environ)
