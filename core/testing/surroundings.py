"""Environment of tests: environment variables, the error stream, retries, endless data, devices."""

from __future__ import annotations

import functools
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from ..compat.util import get_gpu_count
from ..io import DataBatch, DataIter
from ..ndarray import waitall

__all__ = [
    "DummyIter",
    "EnvManager",
    "discard_stderr",
    "environment",
    "has_tvm_ops",
    "is_aarch64_run",
    "is_cd_run",
    "is_op_runnable",
    "list_gpus",
    "retry",
]


@contextmanager
def environment(*args: Any) -> Iterator[None]:
    """Set environment variables in a ``with`` block.

    Args:
        args: a name and its value, or one mapping of several; the value None unsets a variable.
    """
    if len(args) == 1 and isinstance(args[0], Mapping):
        wanted: dict[str, str | None] = dict(args[0])
    elif len(args) == 2:
        wanted = {args[0]: args[1]}
    else:
        raise AssertionError("environment takes one mapping, or the name and value of a variable")
    before = {name: os.environ.get(name) for name in wanted}
    _set_environment(wanted)
    try:
        yield
    finally:
        waitall()
        _set_environment(before)


class EnvManager:
    """A ``with`` block in which one environment variable has a value."""

    def __init__(self, key: str, val: str | None) -> None:
        self._wanted = {key: val}
        self._before: dict[str, str | None] = {}

    def __enter__(self) -> None:
        self._before = {name: os.environ.get(name) for name in self._wanted}
        _set_environment(self._wanted)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        waitall()
        _set_environment(self._before)


_STDERR = 2


@contextmanager
def discard_stderr() -> Iterator[None]:
    """Discard everything the process writes to stderr in a ``with`` block."""
    sys.stderr.flush()
    kept = os.dup(_STDERR)
    try:
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), _STDERR)
            yield
            sys.stderr.flush()
    finally:
        os.dup2(kept, _STDERR)
        os.close(kept)


def retry(n: int) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Decorate a randomized test so that it fails only after ``n`` failures in a row."""
    if n <= 0:
        raise AssertionError(f"cannot try {n} times")

    def decorate(function: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> None:
            for attempt in range(1, n + 1):
                try:
                    function(*args, **kwargs)
                    return
                except AssertionError:
                    if attempt == n:
                        raise
                    waitall()

        return wrapper

    return decorate


class DummyIter(DataIter):
    """Repeats the first batch of another iterator endlessly, for timing."""

    def __init__(self, real_iter: Any) -> None:
        super().__init__(real_iter.batch_size)
        self.real_iter = real_iter
        self.provide_data = real_iter.provide_data
        self.provide_label = real_iter.provide_label
        self.the_batch: DataBatch = next(real_iter)

    def next(self) -> DataBatch:
        """Return the batch."""
        return self.the_batch


def list_gpus() -> range:
    """Return the numbers of the usable CUDA devices."""
    return range(get_gpu_count())


def has_tvm_ops() -> bool:
    """Return whether there are operators compiled by TVM: there are none."""
    return False


def is_op_runnable() -> bool:
    """Return whether the device can run all operators compiled by TVM: it can, as there are
    none."""
    return True


def is_cd_run() -> bool:
    """Return whether a continuous delivery job runs the tests (``CD_JOB=1``)."""
    return os.environ.get("CD_JOB") == "1"


def is_aarch64_run() -> bool:
    """Return whether the processor is a 64-bit ARM."""
    return platform.machine() == "aarch64"


def _set_environment(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
