"""Protocols between a link and what it serves. An executor implements ``Host`` and runs a ``Loop``
over a ``Channel``."""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy.typing as npt

from app.errors.tree import HostError
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
    """Priority of calls; lower numbers go first."""

    CONTROL = 0
    PREDICT = 1
    STEP = 2


@dataclass(slots=True)
class IncomingCall:
    """One call that arrived.

    Attributes:
        id, method, params: as sent by the caller.
        tensors: valid until it is answered.
        deadline: on the machine's monotonic clock, after which nobody waits; 0 for none.
        priority: among predictions; lower goes first.
        arrived_ns: time of arrival on the monotonic clock.
        target: for a prediction, what it shares with similar ones.
        slot: the slot with its tensors, which also takes those of the answer if they fit; -1 for no
            slot.
        infer_us: microseconds of computation so far, if it is computed in pieces.
        was_planned: its plan has been made for it, and must not be waited for again.
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
        call: the call that it answers.
        result: small plain values; the same object for similar predictions.
        tensors: the outputs; valid until the next batch.
    """

    call: IncomingCall
    result: Mapping[str, Any]
    tensors: Arrays


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prediction that was checked.

    Attributes:
        call: the call that it answers.
        group: equal for predictions that can share a batch.
        rows: its number of examples.
        most_rows: limit on the examples in a batch; a prediction with more is computed in pieces.
        delay_ns: how long it may wait for others to join its batch.
        work: what the host computes.
        answer_bytes: size of its outputs.
    """

    call: IncomingCall
    group: Hashable
    rows: int
    most_rows: int
    delay_ns: int = 0
    work: Any = None
    answer_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Computation:
    """A call that is computed in pieces, so that others can be answered in between.

    Attributes:
        specs: shapes and dtypes of the answer's tensors.
        run: takes the answer's tensors and returns a generator of steps, which write the tensors
            and return the rest of the answer. After a step that yields a future, the next one runs
            when that is done.
        is_exclusive: other calls on its module wait, in order, until it ends.
    """

    specs: TensorSpecs
    run: Callable[[Arrays], Generator[Future[Any] | None, None, Mapping[str, Any]]]
    is_exclusive: bool = False


class ChannelClosed(Exception):
    """The API process asked this executor to stop, or is gone."""


class Channel(Protocol):
    """The source of a device loop's calls and the destination of its answers.

    Attributes:
        largest_answer_bytes: limit on the tensors of one answer.
    """

    largest_answer_bytes: int

    def receive(self, timeout_seconds: float | None) -> tuple[list[IncomingCall], list[int]]:
        """Return new calls and ids of cancelled calls; wait for the first up to a time.

        Raises:
            ChannelClosed: no more calls will come.
        """
        ...

    def reserve(self, specs: TensorSpecs) -> Buffers:
        """Return tensors for an answer, to be passed to ``reply`` or released.

        Raises:
            HostError: there is never, or currently not, enough memory.
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
        """Return a method's priority; raise HostError for an unknown method."""
        ...

    def handle(
        self, method: str, params: Mapping[str, Any], tensors: Arrays
    ) -> Answer | Computation:
        """Answer a call, or return how to compute it in pieces.

        The returned tensors need only be valid until the next call or batch.

        Raises:
            HostError: the call is refused.
        """
        ...

    def known(self, call: IncomingCall) -> Prepared | None:
        """Return the prepared prediction from the cache, if one like it was prepared and is still
        valid."""
        ...

    def plan(self, call: IncomingCall) -> Computation | None:
        """Return the work that makes a prediction's plan, if that takes long.

        None if the plan exists, or is quick to make.
        """
        ...

    def prepare(self, call: IncomingCall) -> Prepared:
        """Return a prediction that is ready to join a batch; raise HostError."""
        ...

    def predict(self, batch: Sequence[Prepared]) -> tuple[list[Predicted], BatchFacts]:
        """Compute the predictions of one group as a batch; a HostError applies to all of them."""
        ...

    def has_work(self) -> bool:
        """Return whether any job can run a step now."""
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
"""Makes the loop of a device; raises if the device cannot be used."""
