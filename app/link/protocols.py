"""What the two sides of a link are to each other: calls that arrive, where answers go, who gives
them. An executor implements ``Host`` and runs a ``Loop`` over a ``Channel``."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy.typing as npt

from app.errors import HostError

__all__ = [
    "Arrays",
    "Channel",
    "ChannelClosed",
    "Emit",
    "Host",
    "IncomingCall",
    "Loop",
    "MakeLoop",
    "Priority",
]

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
Emit: TypeAlias = Callable[[dict[str, Any]], None]


class Priority(enum.IntEnum):
    """Which calls go first; the lowest number does."""

    CONTROL = 0
    PREDICT = 1
    STEP = 2


@dataclass(slots=True)
class IncomingCall:
    """One call that arrived. ``tensors`` are valid until it is answered."""

    id: int
    method: str
    params: dict[str, Any]
    tensors: Arrays = field(default_factory=dict)


class ChannelClosed(Exception):
    """The API process asked for the end, or is gone."""


class Channel(Protocol):
    """Where a device loop's calls come from and its answers go."""

    def receive(self, timeout_seconds: float | None) -> tuple[list[IncomingCall], list[int]]:
        """Return calls that arrived and ids of calls given up; wait for the first so long.

        Raises:
            ChannelClosed: nothing will come any more.
        """
        ...

    def reply(
        self, call: IncomingCall, result: Mapping[str, Any], tensors: Mapping[str, Any]
    ) -> None:
        """Answer a call; tensors are copied before this returns."""
        ...

    def refuse(self, call: IncomingCall, error: HostError) -> None:
        """Answer a call with an error."""
        ...

    def emit(self, event: dict[str, Any]) -> None:
        """Report an event of a job."""
        ...

    def wake(self) -> None:
        """Let ``receive`` return, though nothing arrived; may be called in any thread."""
        ...


class Host(Protocol):
    """What a device loop runs: answers calls and advances jobs, all in the loop's thread."""

    def priority(self, method: str) -> Priority:
        """Return the place of a method in the order of service; HostError when unknown."""
        ...

    def handle(
        self, method: str, params: dict[str, Any], tensors: Arrays
    ) -> tuple[Mapping[str, Any], Mapping[str, npt.NDArray[Any]]]:
        """Answer a call. The tensors returned need only live until the next call or batch.

        Raises:
            HostError: the call is refused.
        """
        ...

    def has_work(self) -> bool:
        """Tell whether a job can be advanced now."""
        ...

    def advance(self) -> None:
        """Run one batch of one job."""
        ...

    def close(self) -> None:
        """Let go of the device."""
        ...


class Loop(Protocol):
    """Serves one channel with one host."""

    def run(self) -> None:
        """Serve until the channel closes."""
        ...


MakeLoop: TypeAlias = Callable[[str, Channel], Loop]
"""Makes the loop of a device; what keeps the device from being used is raised here."""
