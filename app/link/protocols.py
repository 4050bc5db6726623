"""What the two sides of a link are to each other: calls that arrive, where answers go, who gives
them. An executor implements ``Host`` and runs a ``Loop`` over a ``Channel``."""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy.typing as npt

from app.errors import HostError
from app.link.client import Buffers, TensorSpecs
from app.link.packed_frames import BatchFacts
from app.link.signatures import Target

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
    "Predicted",
    "Prepared",
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
    """One call that arrived.

    Attributes:
        id, method, params: of the call.
        tensors: valid until it is answered.
        deadline: on the machine's monotonic clock, after which nobody waits; 0 for none.
        priority: among predictions: the lower, the sooner.
        arrived_ns: when it came, on the monotonic clock.
        target: of a prediction, what it has in common with others that are alike.
        slot: where its tensors lie, and where those of the answer go if they fit; -1 for no slot.
        infer_us: microseconds that its answer was computed for, where that is done in pieces.
        was_planned: what it is computed by was made before, and is not to be waited for again.
    """

    id: int
    method: str
    params: Mapping[str, Any]
    tensors: Arrays = field(default_factory=dict)
    deadline: float = 0.0
    priority: int = 0
    arrived_ns: int = 0
    target: Target | None = None
    slot: int = -1
    infer_us: int = 0
    was_planned: bool = False


@dataclass(frozen=True, slots=True)
class Predicted:
    """A prediction that was computed in a batch.

    Attributes:
        call: what it answers.
        result: small plain values; one object for all that are alike.
        tensors: the outputs; they need only live until the next batch.
    """

    call: IncomingCall
    result: Mapping[str, Any]
    tensors: Arrays


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prediction that was checked.

    Attributes:
        call: what it answers.
        group: equal for those that can be computed together.
        rows: its number of examples.
        most_rows: examples that may be computed together; where it has more itself, it takes
            pieces.
        delay_ns: how long it may wait for others that are to be computed with it.
        work: what the host computes.
    """

    call: IncomingCall
    group: Hashable
    rows: int
    most_rows: int
    delay_ns: int = 0
    work: Any = None


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

    def reply_batch(self, batch: Sequence[Predicted], facts: BatchFacts) -> None:
        """Answer the predictions of a batch; tensors are copied before this returns."""
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
        """Make ``receive`` return although nothing has arrived; may be called in any thread."""
        ...


class Host(Protocol):
    """What a device loop runs: answers calls and advances jobs, all in the loop's thread."""

    def priority(self, method: str) -> Priority:
        """Return the place of a method in the order of service; HostError when unknown."""
        ...

    def handle(
        self, method: str, params: Mapping[str, Any], tensors: Arrays
    ) -> Answer | Computation:
        """Answer a call, or say how it is computed in pieces.

        The tensors returned need only live until the next call or batch.

        Raises:
            HostError: the call is refused.
        """
        ...

    def known(self, call: IncomingCall) -> Prepared | None:
        """Return what ``prepare`` would, where one like it was prepared and holds still."""
        ...

    def plan(self, call: IncomingCall) -> Computation | None:
        """Return what makes that which a prediction is computed by, where that takes long.

        None if it is there, or is made at once.
        """
        ...

    def prepare(self, call: IncomingCall) -> Prepared:
        """Return a prediction ready to be computed with others; raise HostError."""
        ...

    def predict(self, batch: Sequence[Prepared]) -> tuple[list[Predicted], BatchFacts]:
        """Compute predictions of one group together; raise HostError for all of them."""
        ...

    def has_work(self) -> bool:
        """Return whether a job can be advanced now."""
        ...

    def advance(self) -> None:
        """Run one batch of one job."""
        ...

    def close(self) -> None:
        """Release the device."""
        ...


class Loop(Protocol):
    """Serves one channel with one host."""

    def run(self) -> None:
        """Serve until the channel closes."""
        ...


MakeLoop: TypeAlias = Callable[[str, Channel], Loop]
"""Makes the loop of a device; what keeps the device from being used is raised here."""
