"""What the two sides of a link are to each other: calls that arrive, where answers go, who gives
them. An executor implements ``Host`` and runs a ``Loop`` over a ``Channel``."""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy.typing as npt

from app.errors import HostError
from app.link.client import Buffers, TensorSpecs

__all__ = [
    "Answer",
    "Arrays",
    "Channel",
    "ChannelClosed",
    "Computation",
    "Emit",
    "Host",
    "IncomingCall",
    "Loop",
    "MakeLoop",
    "Priority",
]

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
Answer: TypeAlias = tuple[Mapping[str, Any], Mapping[str, npt.NDArray[Any]]]
"""Result and tensors."""
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


@dataclass(frozen=True, slots=True)
class Computation:
    """How a call is answered in pieces, between which others are.

    Attributes:
        specs: shapes and dtypes of the answer's tensors.
        run: makes the steps; it is given the answer's tensors, which the steps write, and they
            return the rest of the answer. After a step that yields a future the next one comes when
            that is done.
        is_exclusive: other calls on its module wait for its end, in their order.
    """

    specs: TensorSpecs
    run: Callable[[Arrays], Generator[Future[Any] | None, None, Mapping[str, Any]]]
    is_exclusive: bool = False


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

    def reserve(self, specs: TensorSpecs) -> Buffers:
        """Return tensors for an answer, which are given to ``reply`` or released.

        Raises:
            HostError: there is no memory for so much, or none at present.
        """
        ...

    def reply(
        self,
        call: IncomingCall,
        result: Mapping[str, Any],
        tensors: Mapping[str, Any] | Buffers,
    ) -> None:
        """Answer a call; tensors are copied before this returns, buffers are handed over."""
        ...

    def refuse(self, call: IncomingCall, error: HostError) -> None:
        """Answer a call with an error."""
        ...

    def emit(self, event: dict[str, Any]) -> None:
        """Report an event of a job."""
        ...

    @property
    def is_full(self) -> bool:
        """True while jobs should wait: too many events are under way."""
        ...

    def wake(self) -> None:
        """Let ``receive`` return, though nothing arrived; may be called in any thread."""
        ...


class Host(Protocol):
    """What a device loop runs: answers calls and advances jobs, all in the loop's thread."""

    def priority(self, method: str) -> Priority:
        """Return the place of a method in the order of service; HostError when unknown."""
        ...

    def handle(self, method: str, params: dict[str, Any], tensors: Arrays) -> Answer | Computation:
        """Answer a call, or say how it is computed in pieces.

        The tensors returned need only live until the next call or batch.

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
