"""How the API process talks to the process that holds a device.

One interface, several forms: in this process (tests), one spawned process per device (default),
a Ray actor (cluster).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["ExecutorClient", "ExecutorGone", "HostError", "Reply", "Tensors"]

Tensors = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one call: small plain values and the tensors that belong to it.

    The tensors may lie in shared memory; they are valid until ``release`` is called.
    """

    result: dict[str, Any]
    tensors: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    def release(self) -> None:
        """Give the tensors' memory back."""


class HostError(Exception):
    """A call was refused by the host, with the code of the error table of ``app.errors``."""

    def __init__(self, code: str, message: str, field_name: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field_name = field_name


class ExecutorGone(Exception):
    """The executor died before it answered; nothing is known of the call's effect."""


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

    async def call(
        self, method: str, params: Mapping[str, Any] | None = None, tensors: Tensors | None = None
    ) -> Reply:
        """Call a method of the ``ModuleHost``.

        Raises:
            HostError: the host refused the call; nothing was changed.
            ExecutorGone: the executor died.
        """
        ...

    def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield what running jobs report: progress, metrics, logs, checkpoints, their end."""
        ...
