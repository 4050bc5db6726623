"""What the kernels run on in tests: the host, or a GPU if there is one."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import core as mx
from core.kernels.cuda import register_cuda
from core.kernels.kernel import KernelTable

from .host_modules import on_host

__all__ = ["GPU", "HOST", "Machine"]


@dataclasses.dataclass(frozen=True)
class Machine:
    """Where a plan with CUDA kernels runs.

    Attributes:
        context: the context.
        table: the kernels, for the context's backend.
    """

    context: Any
    table: KernelTable

    @classmethod
    def of(cls, context: Any, backend: str) -> Machine:
        """Return the machine of a context, with a table of CUDA kernels alone."""
        table = KernelTable()
        register_cuda(table, backend)
        return cls(context, table)

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Let arrays be created, and kernels bound, there."""
        with self.context, contextlib.nullcontext() if self is GPU else on_host():
            yield


HOST, GPU = Machine.of(mx.cpu(), "numpy"), Machine.of(mx.gpu(0), "cupy")
