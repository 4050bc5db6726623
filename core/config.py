"""Environment settings of the engine; malformed ones are errors.

``Config`` is read once, at import. Settings that MXNet reads at each use are functions here,
because scripts change them while running. No other module of the engine reads settings from the
environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "Config",
    "aggregation_size",
    "are_library_threads_set",
    "config",
    "data_home",
    "eliminates_common_subexpressions",
    "read_config",
    "repository_address",
    "updates_on_kvstore",
]


_MATH = ("float32", "bfloat16")
_LIBRARY_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Config:
    """Settings of the engine.

    Attributes:
        threads: number of threads of an executor's kernels and of BLAS (``MODSERVE_THREADS``); 0
            uses all processors.
        sharers: number of executors that share the processors with each other and with their server
            (``CORE_SHARERS``); 0 for a process that has them for itself.
        in_bfloat16: let predictions multiply in bfloat16 what graphs have in float32
            (``MODSERVE_MATH``).
        check_kernels: run every fast kernel against its reference (``CORE_CHECK_KERNELS``).
        native_kernels: use the kernels in C where they are faster (``CORE_NATIVE_KERNELS``).
        gpu_as_cpu: answer ``gpu(i)`` with ``cpu(i)`` (``CORE_GPU_AS_CPU``).
        mirror: rematerialization (mirroring, in MXNet): recompute cheap operators in backward
            passes (``MXNET_BACKWARD_DO_MIRROR``).
        mirror_step: keep the result of one in this many of these operators nevertheless
            (``MXNET_MIRROR_STEP``).
    """

    threads: int = 0
    sharers: int = 0
    in_bfloat16: bool = False
    check_kernels: bool = False
    native_kernels: bool = True
    gpu_as_cpu: bool = False
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
    math = environ.get("MODSERVE_MATH", "float32")
    if math not in _MATH:
        raise ValueError(f"MODSERVE_MATH is {math!r}; expected {' or '.join(_MATH)}")
    step = environ.get("MXNET_MIRROR_STEP", "100")
    if not step.isdecimal() or int(step) == 0:
        raise ValueError(f"MXNET_MIRROR_STEP is {step!r}; expected a positive count")
    return Config(
        threads=int(threads),
        sharers=int(sharers),
        in_bfloat16=math == "bfloat16",
        check_kernels=_read_flag(environ, "CORE_CHECK_KERNELS"),
        native_kernels=_read_flag(environ, "CORE_NATIVE_KERNELS", default="1"),
        gpu_as_cpu=_read_flag(environ, "CORE_GPU_AS_CPU"),
        mirror=_read_flag(environ, "MXNET_BACKWARD_DO_MIRROR"),
        mirror_step=int(step),
    )


def updates_on_kvstore() -> bool:
    """Return whether key-value stores may run the optimizer (``MXNET_UPDATE_ON_KVSTORE``)."""
    return _read_flag(os.environ, "MXNET_UPDATE_ON_KVSTORE", default="1")


def aggregation_size() -> int:
    """Return the number of parameters that LARS updates at a time
    (``MXNET_OPTIMIZER_AGGREGATION_SIZE``)."""
    name = "MXNET_OPTIMIZER_AGGREGATION_SIZE"
    size = os.environ.get(name, "4")
    if not size.isdecimal() or int(size) == 0:
        raise ValueError(f"{name} is {size!r}; expected a positive count")
    return int(size)


def eliminates_common_subexpressions() -> bool:
    """Return whether to eliminate common subexpressions (``MXNET_ELIMINATE_COMMON_EXPR``)."""
    return os.environ.get("MXNET_ELIMINATE_COMMON_EXPR", "1") not in ("0", "false")


def are_library_threads_set() -> bool:
    """Return whether the user has set the libraries' own variables for the number of threads.

    These are ``OMP_NUM_THREADS`` and ``OPENBLAS_NUM_THREADS``, as set before the first kernel runs.
    """
    return any(name in os.environ for name in _LIBRARY_THREADS)


def data_home() -> str:
    """Return the data directory of MXNet's scripts: ``MXNET_HOME``, by default ``~/.mxnet``."""
    return os.environ.get("MXNET_HOME") or str(Path.home() / ".mxnet")


def repository_address() -> str:
    """Return the address of the files that scripts for MXNet fetch (``MXNET_GLUON_REPO``)."""
    default = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"
    return os.environ.get("MXNET_GLUON_REPO", default).rstrip("/") + "/"


def _read_flag(environ: Mapping[str, str], name: str, default: str = "0") -> bool:
    value = environ.get(name, default)
    if value not in ("0", "1"):
        raise ValueError(f"{name} is {value!r}; expected 0 or 1")
    return value == "1"


config = read_config(os.environ)
