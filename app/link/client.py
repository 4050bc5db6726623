"""How the API process talks to the process that holds a device.

One interface, several forms: in this process (tests), one spawned process per device (default),
a Ray actor (cluster).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from app.link.packed_frames import BatchFacts
from app.link.signatures import Signature, Target
from app.link.slots import Piece
from app.link.specs import Tensors, TensorSpecs

__all__ = [
    "Asked",
    "Buffers",
    "ExecutorClient",
    "OnOutcome",
    "Outcome",
    "Reply",
    "TensorSpecs",
    "Tensors",
]


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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a prediction ended with.

    Attributes:
        result: small plain values, as the call ``predict`` answers them.
        outputs: what the outputs are. Equal ones are one and the same object, as long as the
            executor lives and few are larger than a slot.
        memory: the outputs; valid until ``release``, which every receiver must call once.
        release: gives the memory back.
        facts: of the batch that it was computed in.
        queue_ns: how long it waited for its batch, at the executor.
    """

    result: Mapping[str, Any]
    outputs: Signature
    memory: memoryview
    release: Callable[[], None]
    facts: BatchFacts
    queue_ns: int = 0

    def reply(self) -> Reply:
        """Return it as the answer to a call, which is to be released in its place."""
        tensors = self.outputs.arrays(np.frombuffer(self.memory, np.uint8), 0)
        return _ReplyOfOutcome(dict(self.result), tensors, outcome=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReplyOfOutcome(Reply):
    outcome: Outcome

    def release(self) -> None:
        self.outcome.release()


OnOutcome: TypeAlias = Callable[[Outcome | Exception], None]
"""Called once with what a prediction ended with: a HostError or ExecutorGone where it failed."""


class Asked(Protocol):
    """A prediction that was asked for."""

    def withdraw(self) -> None:
        """Give it up: its outcome is wanted no more. Nothing where there is one already."""
        ...


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
        """Return whether calls can be answered at present."""
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

    def submit(
        self,
        target: Target,
        pieces: Sequence[Piece],
        on_outcome: OnOutcome,
        *,
        deadline: float = 0.0,
        priority: int = 0,
    ) -> Asked:
        """Ask for a prediction; those that wait at the executor are computed together.

        Args:
            target: what it is asked of; one object for all that are alike.
            pieces: the bytes of each input, C-contiguous; they stay as they are until the outcome
                is there, or the prediction was withdrawn: large ones are copied by a thread.
            on_outcome: called on the event loop, never before this returns.
            deadline: on the machine's monotonic clock, after which it is refused with
                ``timed_out``; 0 for none.
            priority: the lower, the sooner.

        Raises:
            HostError: ``unavailable``, too much memory is in use by calls under way.
            ExecutorGone: the executor is not running.
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
