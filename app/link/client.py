"""The API process's interface to an executor.

Implementations: a thread of this process (tests), one spawned process per device (default), a Ray
actor (cluster).
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

    The tensors may be in shared memory; they are valid until ``release``, which every receiver must
    call once.
    """

    result: dict[str, Any]
    tensors: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    def release(self) -> None:
        """Release the tensors' memory."""


class Buffers:
    """Uninitialised tensors to be written by the caller and sent with a call, without a copy.

    The call that they are passed to takes ownership; buffers that are not sent must be released.
    """

    __slots__ = ("tensors",)

    def __init__(self, tensors: dict[str, npt.NDArray[Any]]) -> None:
        self.tensors = tensors

    def release(self) -> None:
        """Release the memory; a second call does nothing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a successful prediction.

    Attributes:
        result: small plain values, as in the answer to the call ``predict``.
        outputs: signature of the outputs. Equal signatures are usually the same object while the
            executor lives.
        memory: the outputs; valid until ``release``, which every receiver must call once.
        release: releases the memory.
        facts: figures of the batch that it was computed in.
        queue_ns: nanoseconds that it waited for its batch in the executor.
    """

    result: Mapping[str, Any]
    outputs: Signature
    memory: memoryview
    release: Callable[[], None]
    facts: BatchFacts
    queue_ns: int = 0

    def reply(self) -> Reply:
        """Convert to the answer to a call, which then has to be released instead of this."""
        tensors = self.outputs.arrays(np.frombuffer(self.memory, np.uint8), 0)
        return _ReplyOfOutcome(dict(self.result), tensors, outcome=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReplyOfOutcome(Reply):
    outcome: Outcome

    def release(self) -> None:
        self.outcome.release()


OnOutcome: TypeAlias = Callable[[Outcome | Exception], None]
"""Called once with the outcome of a prediction, or the HostError or ExecutorGone that it failed
with."""


class Asked(Protocol):
    """A prediction that was submitted."""

    def withdraw(self) -> None:
        """Cancel it: its outcome is no longer wanted. No effect if it has one already."""
        ...


class ExecutorClient(Protocol):
    """One executor, as the services see it."""

    name: str
    """Its device, for example ``cpu(0)``."""

    async def start(self) -> None:
        """Start the executor and wait until it answers."""
        ...

    async def stop(self) -> None:
        """Stop the executor after the batch in progress."""
        ...

    def is_alive(self) -> bool:
        """Return whether calls can currently be answered."""
        ...

    def reserve(self, specs: TensorSpecs) -> Buffers:
        """Return tensors to write a request into, row by row, and to pass to ``call``.

        Raises:
            HostError: ``unavailable``, too much memory is in use by pending calls.
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
            HostError: the host refused the call and changed nothing.
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
        """Submit a prediction; the executor batches those that are waiting.

        Args:
            target: describes the prediction; the same object for all similar predictions.
            pieces: the bytes of each input, C-contiguous. They must not change until there is an
                outcome or the prediction is withdrawn, because large ones are copied by a thread.
            on_outcome: called on the event loop, never before this returns.
            deadline: on the machine's monotonic clock, after which it is refused with
                ``timed_out``; 0 for none.
            priority: the lower, the sooner.

        Raises:
            HostError: ``unavailable``, too much memory is in use by pending calls.
            ExecutorGone: the executor is not running.
        """
        ...

    def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield events of running jobs: progress, metrics, logs, checkpoints, their end.

        There may be one consumer at a time; without one, events are queued.
        """
        ...

    def events_taken(self, count: int) -> None:
        """Acknowledge the ``count`` oldest of the yielded events, which have been stored.

        Jobs pause when some hundreds of their events are unacknowledged.
        """
        ...
