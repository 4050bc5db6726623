"""The number of threads of kernels and BLAS, and how long idle ones spin."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from threadpoolctl import threadpool_limits

from ..config import Config, are_library_threads_set
from ..cpus import available_cpus

__all__ = ["limit_blas", "openmp_environment", "thread_count"]

_SPINS = "20000"
"""Default number of spins before an idle thread sleeps, as in a script: longer than Python takes
between two steps of a small model. Training an MLP of 109,000 weights takes 0.2 to 0.3 ms with
this value, 1 ms with 1,000, and up to 8 ms with 5,000: threads then sleep just before they are
needed."""

_POLICY = "OMP_WAIT_POLICY"


def thread_count(config: Config) -> int:
    """Return the number of threads for kernels and BLAS; 0 leaves the choice to the libraries.

    The libraries respect affinity and cpusets, but not the quotas of cgroups. Where executors share
    processors, one is left for their server: BLAS threads spin while they wait for each other, and
    with more threads than processors a step takes many times as long.
    """
    if config.threads:
        return config.threads
    if config.sharers:
        return max(1, (available_cpus() - 1) // config.sharers)
    return 0 if are_library_threads_set() else available_cpus()


@contextlib.contextmanager
def openmp_environment(count: int) -> Iterator[None]:
    """Set the environment variables that the OpenMP runtime reads when it is loaded, temporarily.

    Variables set by the user are kept, except for the number of threads if ``count`` is not 0.
    ``omp_set_num_threads`` would affect the calling thread only.
    """
    wanted = {"OMP_NUM_THREADS": str(count)} if count else {}
    if _POLICY not in os.environ and "GOMP_SPINCOUNT" not in os.environ:
        wanted["GOMP_SPINCOUNT"] = _SPINS
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def limit_blas(count: int) -> None:
    """Limit NumPy's BLAS to this many threads; 0 leaves it unchanged."""
    if count:
        # Without a `with`, the limit stays.
        threadpool_limits(count, user_api="blas")
