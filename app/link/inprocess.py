"""An executor in this process: the same loop, in a thread. For tests and notebooks."""

from __future__ import annotations

import asyncio
import enum
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from app.errors.tree import ExecutorGone, HostError
from app.link.client import Asked, Buffers, OnOutcome, Outcome, Reply, Tensors, TensorSpecs
from app.link.event_flow import EventFlow, EventQueue
from app.link.packed_frames import BatchFacts
from app.link.protocols import ChannelClosed, Emit, IncomingCall, MakeLoop, Predicted
from app.link.signatures import Signature, Target
from app.link.slab_port import SlabLimits
from app.link.slots import Piece

__all__ = ["InProcessClient"]


class _Signal(enum.Enum):
    """Messages to a loop other than calls and ids of cancelled calls."""

    STOP = enum.auto()
    WAKE = enum.auto()


class _QueueChannel:
    """A ``Channel`` whose two ends are threads."""

    def __init__(
        self,
        answer: Callable[[int, Reply | HostError], None],
        emit: Emit,
    ) -> None:
        self.events = EventFlow(emit)
        self.largest_answer_bytes = SlabLimits().largest_bytes
        self.inbox: queue.SimpleQueue[IncomingCall | int | _Signal] = queue.SimpleQueue()
        self._answer = answer

    def receive(self, timeout_seconds: float | None) -> tuple[list[IncomingCall], list[int]]:
        calls: list[IncomingCall] = []
        dropped: list[int] = []
        block = timeout_seconds is None or timeout_seconds > 0
        try:
            while True:
                item = self.inbox.get(block=block, timeout=timeout_seconds if block else None)
                block = False
                if item is _Signal.STOP:
                    raise ChannelClosed
                if isinstance(item, int):
                    dropped.append(item)
                elif isinstance(item, IncomingCall):
                    calls.append(item)
        except queue.Empty:
            return calls, dropped

    def reserve(self, specs: TensorSpecs) -> Buffers:
        return _buffers_of(specs)

    def reply(
        self,
        call: IncomingCall,
        result: Mapping[str, Any],
        tensors: Mapping[str, npt.NDArray[Any]] | Buffers,
    ) -> None:
        if isinstance(tensors, Buffers):
            copies = dict(tensors.tensors)
        else:
            copies = {name: np.array(value, order="C") for name, value in tensors.items()}
        self._answer(call.id, Reply(dict(result), copies))

    def reply_batch(self, batch: Sequence[Predicted], facts: BatchFacts) -> None:
        for one in batch:
            self.reply(one.call, one.result, one.tensors)

    def refuse(self, call: IncomingCall, error: HostError) -> None:
        self._answer(call.id, error)

    def emit(self, event: dict[str, Any]) -> None:
        self.events.emit(event)

    @property
    def is_full(self) -> bool:
        return self.events.is_full

    def wake(self) -> None:
        self.inbox.put(_Signal.WAKE)


@dataclass(frozen=True, slots=True)
class _Prediction(Asked):
    call_id: int
    on_outcome: OnOutcome
    give_up: Callable[[int], None]

    def withdraw(self) -> None:
        self.give_up(self.call_id)


class InProcessClient:
    """An ``ExecutorClient`` whose loop runs in a thread of this process."""

    def __init__(self, name: str, make_loop: MakeLoop) -> None:
        """Create an executor that is not running yet.

        Args:
            name: its device, for example ``cpu(0)``.
            make_loop: called in the new thread with the name and the channel to serve.
        """
        self.name = name
        self._make_loop = make_loop
        self._pending: dict[int, asyncio.Future[Reply]] = {}
        self._predictions: dict[int, _Prediction] = {}
        self._next_id = 0
        self._events = EventQueue()
        self._thread: threading.Thread | None = None

    async def start(self) -> None:
        """Start the thread and wait until its loop is made; errors of that are raised here."""
        self._loop = asyncio.get_running_loop()
        self._channel = _QueueChannel(self._answer_later, self._emit_later)
        ready = self._loop.create_future()
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name=f"executor {self.name}", daemon=True
        )
        self._thread.start()
        await ready

    async def stop(self) -> None:
        """End the thread after the batch in progress."""
        if self._thread is None:
            return
        self._channel.inbox.put(_Signal.STOP)
        await asyncio.to_thread(self._thread.join)
        self._thread = None
        self._fail_pending("the executor was stopped")

    def is_alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def reserve(self, specs: TensorSpecs) -> Buffers:
        """Return uninitialised tensors."""
        return _buffers_of(specs)

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        tensors: Tensors | Buffers | None = None,
    ) -> Reply:
        """Call a method of the host (see ``ExecutorClient.call``)."""
        if not self.is_alive():
            raise ExecutorGone(f"executor {self.name} is not running")
        if isinstance(tensors, Buffers):
            arrays = dict(tensors.tensors)
        else:
            arrays = {name: np.array(value, order="C") for name, value in (tensors or {}).items()}
        self._next_id += 1
        call_id = self._next_id
        future: asyncio.Future[Reply] = self._loop.create_future()
        self._pending[call_id] = future
        self._channel.inbox.put(IncomingCall(call_id, method, dict(params or {}), arrays))
        try:
            return await future
        finally:
            if self._pending.pop(call_id, None) is not None:
                self._channel.inbox.put(call_id)

    def submit(
        self,
        target: Target,
        pieces: Sequence[Piece],
        on_outcome: OnOutcome,
        *,
        deadline: float = 0.0,
        priority: int = 0,
    ) -> Asked:
        """Submit a prediction (see ``ExecutorClient.submit``)."""
        if not self.is_alive():
            raise ExecutorGone(f"executor {self.name} is not running")
        self._next_id += 1
        asked = _Prediction(self._next_id, on_outcome, self._withdraw)
        self._predictions[self._next_id] = asked
        call = IncomingCall(
            *(self._next_id, "predict", target.params, _arrays_of(target.inputs, pieces)),
            *(deadline, priority, time.monotonic_ns(), target),
        )
        self._channel.inbox.put(call)
        return asked

    def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield events of running jobs."""
        return self._events.events()

    def events_taken(self, count: int) -> None:
        """Acknowledge events (see ``ExecutorClient.events_taken``)."""
        self._events.taken(count)

    def _run(self, ready: asyncio.Future[None]) -> None:
        try:
            loop = self._make_loop(self.name, self._channel)
        except Exception as error:
            self._loop.call_soon_threadsafe(ready.set_exception, error)
            return
        self._loop.call_soon_threadsafe(ready.set_result, None)
        try:
            loop.run()
        finally:
            self._post(self._fail_pending, "the executor's thread ended")

    def _answer_later(self, call_id: int, answer: Reply | HostError) -> None:
        self._post(self._answer, call_id, answer)

    def _emit_later(self, event: dict[str, Any]) -> None:
        self._post(self._events.put, event, self._taken)

    def _taken(self, count: int) -> None:
        self._channel.events.taken(count)
        self._channel.wake()

    def _post(self, function: Callable[..., None], *arguments: Any) -> None:
        """Run a function on the event loop, unless it is closed, as it may be at the end of a
        test."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    def _answer(self, call_id: int, answer: Reply | HostError) -> None:
        prediction = self._predictions.pop(call_id, None)
        if prediction is not None:
            prediction.on_outcome(answer if isinstance(answer, HostError) else _outcome_of(answer))
            return
        future = self._pending.pop(call_id, None)
        if future is None or future.done():
            return
        if isinstance(answer, HostError):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    def _withdraw(self, call_id: int) -> None:
        if self._predictions.pop(call_id, None) is not None:
            self._channel.inbox.put(call_id)

    def _fail_pending(self, reason: str) -> None:
        predictions, self._predictions = self._predictions, {}
        for prediction in predictions.values():
            prediction.on_outcome(ExecutorGone(reason))
        pending, self._pending = self._pending, {}
        for future in pending.values():
            if not future.done():
                future.set_exception(ExecutorGone(reason))


def _buffers_of(specs: TensorSpecs) -> Buffers:
    return Buffers({name: np.empty(shape, dtype) for name, (shape, dtype) in specs.items()})


def _arrays_of(signature: Signature, pieces: Sequence[Piece]) -> dict[str, npt.NDArray[Any]]:
    """Return tensors that are copies of the given bytes."""
    memory = np.empty(signature.nbytes, np.uint8)
    for placement, piece in zip(signature.placements, pieces, strict=True):
        memory[placement[3] : placement[3] + len(piece)] = np.frombuffer(piece, np.uint8)
    return signature.arrays(memory, 0)


def _outcome_of(reply: Reply) -> Outcome:
    specs = {name: (value.shape, value.dtype) for name, value in reply.tensors.items()}
    outputs = Signature.of(specs)
    memory = np.empty(outputs.nbytes, np.uint8)
    for name, target in outputs.arrays(memory, 0).items():
        target[...] = reply.tensors[name]
    return Outcome(reply.result, outputs, memory.data, lambda: None, BatchFacts(1))
