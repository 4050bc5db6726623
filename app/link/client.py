"""How the API process talks to the process that holds a device.

One interface, several forms: in this process (tests), one spawned process per device (default),
a Ray actor (cluster).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy.typing as npt

__all__ = [
    "Buffers",
    "ExecutorClient",
    "Reply",
    "TensorSpecs",
    "Tensors",
]

Tensors: TypeAlias = Mapping[str, npt.NDArray[Any]]

TensorSpecs: TypeAlias = Mapping[str, tuple[tuple[int, ...], npt.DTypeLike]]
"""Shape and dtype by tensor name."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one call: small plain values and the tensors that belong to it.

    The tensors may lie in shared memory; they are valid until ``release`` is called, which every
    receiver must do once.
    """

    result: dict[str, Any]
    tensors: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    def release(self) -> None:
        """Give the tensors' memory back."""


class Buffers:
    """Uninitialised tensors to be written by the caller and sent with a call, without a copy.

    They belong to the call they are given to; buffers that are not sent must be released.
    """

    __slots__ = ("tensors",)

    def __init__(self, tensors: dict[str, npt.NDArray[Any]]) -> None:
        self.tensors = tensors

    def release(self) -> None:
        """Give the memory back; a second call does nothing."""


class ExecutorClient(Protocol):
    """One executor, as the services see it."""

    name: str
    """Its device, for example ``cpu(0)``."""

    async def start(self) -> None:
        """Start it and wait until it answers."""
        ...

    async def stop(self) -> None:
        """End it, letting a running batch finish."""
        ...

    def is_alive(self) -> bool:
        """Tell whether calls can be answered at present."""
        ...

    def reserve(self, specs: TensorSpecs) -> Buffers:
        """Return tensors to write a request into, row by row, and to pass to ``call``.

        Raises:
            HostError: ``unavailable``, too much memory is in use by calls under way.
            ExecutorGone: the executor is not running.
        """
        ...

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        tensors: Tensors | Buffers | None = None,
    ) -> Reply:
        """Call a method of the ``ModuleHost``.

        Tensors are copied before this returns; buffers are handed over.

        Raises:
            HostError: the host refused the call; nothing was changed.
            ExecutorGone: the executor died.
        """
        ...

    def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield what running jobs report: progress, metrics, logs, checkpoints, their end.

        One consumer at a time; what happens while there is none waits for the next.
        """
        ...

    def events_taken(self, count: int) -> None:
        """Note that the ``count`` oldest events yielded are entered; jobs may report more then.

        Without it jobs wait when some hundreds of their events are under way.
        """
        ...
