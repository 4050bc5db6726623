"""The API process's end of the socket: calls out, answers and events in, on the event loop.

Frames to the executor: ``{id, call, params}``, ``{drop: id}``, ``{taken: events}``, ``{stop}``,
``{slots}``, ``{target, params, placements}``. Frames from it: ``{hello}``, ``{id, ok}``,
``{id, error: [code, message, field]}``, ``{event}``, ``{beat}``, ``{outputs, ok, placements}``.
Each may carry the fields of shared memory (``slab_port``). Predictions that fit into a slot, and
their answers, are sent in packed frames, as many per frame as are ready. Answers come in any order.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from app.errors.tree import ExecutorGone, HostError
from app.link.client import Asked, Buffers, OnOutcome, Outcome, Reply, Tensors, TensorSpecs
from app.link.deaths import end_of_call, end_of_prediction
from app.link.frames import (
    Frame,
    FrameError,
    FrameReader,
    encode_frame,
    encode_value,
    send_some,
)
from app.link.large_copies import copy_tensors, write_pieces
from app.link.packed_frames import BatchFacts, asked_frame, asked_record, read_answered
from app.link.shm import SlabsExhausted
from app.link.signatures import NumberedByPeer, Numbers, Signature, Target
from app.link.slab_port import SlabBuffers, SlabLimits, SlabPort, close_fds
from app.link.slots import SLOT_BYTES, Piece, SlotPool
from app.link.work_page import RunningWork

__all__ = ["Connection"]


@dataclass(frozen=True, slots=True)
class _SharedReply(Reply):
    """A reply whose tensors are in a slab of the executor."""

    free: Callable[[], None] | None = None

    def release(self) -> None:
        """Release the slab, which invalidates the tensors; a second call does nothing."""
        if self.tensors and self.free is not None:
            self.tensors.clear()
            self.free()


@dataclass(slots=True)
class _Pending:
    future: asyncio.Future[Reply]
    buffers: SlabBuffers | None


class _Prediction(Asked):
    """A pending prediction, in a slot or in buffers."""

    __slots__ = (
        *("_connection", "buffers", "call_id", "is_asked", "on_outcome", "slot", "target"),
    )

    def __init__(
        self, connection: Connection, call_id: int, target: Target, on_outcome: OnOutcome
    ) -> None:
        self._connection = connection
        self.call_id = call_id
        self.target = target
        self.on_outcome: OnOutcome | None = on_outcome
        self.slot = -1
        self.buffers: SlabBuffers | None = None
        self.is_asked = False

    def withdraw(self) -> None:
        """Cancel it and notify the executor.

        Its memory is released when the answer arrives: until then the executor may be using it.
        """
        if self.on_outcome is not None:
            self.on_outcome = None
            if self.is_asked:
                self._connection.drop(self.call_id)

    def end(self, outcome: Outcome | Exception) -> None:
        """Deliver the outcome, unless the prediction was withdrawn."""
        on_outcome, self.on_outcome = self.on_outcome, None
        if on_outcome is not None:
            on_outcome(outcome)
        elif isinstance(outcome, Outcome):
            outcome.release()


class Connection:
    """A connected executor. All methods belong to the event loop's thread."""

    def __init__(
        self,
        sock: socket.socket,
        limits: SlabLimits,
        on_event: Callable[[dict[str, Any], Callable[[int], None]], None],
        on_closed: Callable[[], None],
        running: Callable[[], tuple[RunningWork, ...]] = lambda: (),
    ) -> None:
        """Take over a connected socket; must be called with a running event loop.

        Args:
            sock: the API process's end of a socket pair.
            limits: shared memory for requests.
            on_event: called with every event of a job, and with the function that acknowledges a
                number of events.
            on_closed: called once when the other side is gone.
            running: returns what the other side was running when it died.
        """
        sock.setblocking(False)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(sock)
        self._port = SlabPort(limits)
        self._on_event = on_event
        self._on_closed = on_closed
        self._running = running
        self._pending: dict[int, _Pending] = {}
        self._outbox: deque[tuple[memoryview, list[int]]] = deque()
        self._slots = SlotPool()
        self._predictions: dict[int, _Prediction] = {}
        self._asked = bytearray()
        self._targets: Numbers[Target] = Numbers()
        self._outputs: NumberedByPeer[tuple[Mapping[str, Any], Signature]] = NumberedByPeer()
        self._next_id = 0
        self._is_open = True
        self._is_writing = False
        self.hello: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self.beat: dict[str, Any] = {}
        self.last_heard = self._loop.time()
        self._loop.add_reader(sock, self._on_readable)
        slots_fd = self._slots.take_fd()
        assert slots_fd is not None
        self._post({"slots": True}, [slots_fd])

    @property
    def is_open(self) -> bool:
        """True until the other side is gone or ``close`` was called."""
        return self._is_open

    @property
    def calls_under_way(self) -> int:
        """Number of pending calls."""
        return len(self._pending) + len(self._predictions)

    @property
    def request_bytes(self) -> int:
        """Shared memory held by pending and reserved requests."""
        return self._port.pool.used_bytes

    def reserve(self, specs: TensorSpecs) -> SlabBuffers:
        """Return uninitialised tensors in shared memory to be sent with a call."""
        self._check_open()
        try:
            return self._port.reserve(specs)
        except SlabsExhausted as error:
            raise HostError("unavailable", f"the request cannot be taken: {error}") from None

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        tensors: Tensors | Buffers | None = None,
    ) -> Reply:
        """Send a call and wait for its answer (see ``ExecutorClient.call``)."""
        try:
            self._check_open()
            # First, because a frame that cannot be encoded after ``attach`` would lose descriptors
            # and releases of slabs, which are taken off their lists there.
            value = encode_value(params or {})
            buffers = await self._to_buffers(tensors)
        except BaseException:
            if isinstance(tensors, Buffers):
                tensors.release()
            raise
        self._next_id += 1
        call_id = self._next_id
        future: asyncio.Future[Reply] = self._loop.create_future()
        self._pending[call_id] = _Pending(future, buffers)
        self._send({"id": call_id, "call": method, "params": value}, buffers)
        try:
            return await future
        except asyncio.CancelledError:
            self._give_up(call_id, future)
            raise

    def submit(
        self,
        target: Target,
        pieces: Sequence[Piece],
        on_outcome: OnOutcome,
        *,
        deadline: float = 0.0,
        priority: int = 0,
    ) -> Asked:
        """Ask for a prediction (see ``ExecutorClient.submit``)."""
        self._check_open()
        prediction = _Prediction(self, self._next_id + 1, target, on_outcome)
        offsets = [row[3] for row in target.inputs.placements]
        try:
            if target.is_shared and target.inputs.nbytes <= SLOT_BYTES:
                prediction.slot = self._slots.take()
                self._slots.write(prediction.slot, offsets, pieces)
            else:
                prediction.buffers = self._port.reserve_as(target.inputs)
        except SlabsExhausted as error:
            raise HostError("unavailable", f"the request cannot be taken: {error}") from None
        self._next_id += 1
        self._predictions[self._next_id] = prediction
        if prediction.buffers is None:
            self._ask(prediction, deadline, priority)
        else:
            self._copy_and_ask(prediction, pieces, deadline, priority)
        return prediction

    def drop(self, call_id: int) -> None:
        """Tell the executor that a call was cancelled."""
        if self._is_open:
            self._send({"drop": call_id})

    def stop(self) -> None:
        """Ask the executor to end after the batch in progress."""
        if self._is_open:
            self._send({"stop": True})

    def drain(self) -> None:
        """Take in everything that a process sent before it ended, however much that is."""
        with contextlib.suppress(OSError, FrameError, ValueError, KeyError):
            while self._is_open and self._reader.receive():
                self._take_frames()

    def close(self, reason: str, *, is_overrun: bool = False) -> None:
        """Close the socket; pending calls fail with ExecutorGone; see ``ProcessClient.kill``."""
        if not self._is_open:
            return
        self._is_open = False
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        self._sock.close()
        self._reader.close()
        for _, fds in self._outbox:
            close_fds(fds)
        self._outbox.clear()
        self._fail_pending(reason, is_overrun)  # before the memory of the requests is unmapped
        self._port.close()
        self._slots.close()
        self._on_closed()

    # -- sending ------------------------------------------------------------------------------

    async def _to_buffers(self, tensors: Tensors | Buffers | None) -> SlabBuffers | None:
        if isinstance(tensors, Buffers):
            if not isinstance(tensors, SlabBuffers) or not tensors.is_from(self._port.pool):
                raise ExecutorGone("the executor in which these buffers were reserved has ended")
            return tensors
        if not tensors:
            return None
        arrays = {name: np.asarray(value) for name, value in tensors.items()}
        try:
            buffers = self._port.reserve_for(arrays)
        except SlabsExhausted as error:
            raise HostError("unavailable", f"the request cannot be taken: {error}") from None
        try:
            await copy_tensors(buffers, arrays)
        except ValueError:
            self._check_open()  # its memory is released with the connection
            raise
        self._check_open()
        return buffers

    def _copy_and_ask(
        self, prediction: _Prediction, pieces: Sequence[Piece], deadline: float, priority: int
    ) -> None:
        """Send a prediction with inputs of any size, in a frame of its own."""
        buffers, call_id = prediction.buffers, prediction.call_id
        assert buffers is not None

        def ask(error: BaseException | None) -> None:
            if call_id not in self._predictions:
                return  # the connection's end has ended it
            if error is not None or prediction.on_outcome is None:
                del self._predictions[call_id]
                buffers.release()
                prediction.end(HostError("internal", f"its inputs were not copied: {error}"))
                return
            prediction.is_asked = True
            frame = {"id": call_id, "call": "predict", "params": prediction.target.params}
            self._send(frame | {"deadline": deadline, "priority": priority}, buffers)

        write_pieces(buffers, pieces, ask)

    def _ask(self, prediction: _Prediction, deadline: float, priority: int) -> None:
        """Add a prediction to the frame that is sent at the end of this iteration of the event
        loop."""
        prediction.is_asked, target = True, prediction.target
        number = self._targets.find(target)
        if number is None:
            number, dropped = self._targets.add(target)
            frame = {"target": number, "params": target.params, "drop_target": dropped}
            self._send(frame | {"placements": target.inputs.placements})
        if not self._asked:
            self._loop.call_soon(self._flush_asked)
        self._asked += asked_record(prediction.call_id, number, prediction.slot, deadline, priority)

    def _flush_asked(self) -> None:
        if self._asked and self._is_open:
            frame, self._asked = asked_frame(bytes(self._asked)), bytearray()
            self._write(frame, [])

    def _send(self, frame: Frame, buffers: SlabBuffers | None = None) -> None:
        # A call must be sent before it can be dropped, and predictions before their target is.
        self._flush_asked()
        self._post(frame, self._port.attach(frame, buffers))

    def _post(self, frame: Frame, fds: list[int]) -> None:
        self._write(encode_frame(frame), fds)

    def _write(self, data: bytes, fds: list[int]) -> None:
        # The queue has no limit of its own, but a caller waits for each frame's answer. It must not
        # block: the executor's sends do, and would wait for this process to read.
        self._outbox.append((memoryview(data), fds))
        if len(self._outbox) == 1:
            self._flush()

    def _flush(self) -> None:
        try:
            while self._outbox:
                data, fds = self._outbox[0]
                sent = send_some(self._sock, data, fds)
                close_fds(fds)  # they went with the first byte; the rest is sent without them
                if sent < len(data):
                    self._outbox[0] = (data[sent:], fds)
                else:
                    self._outbox.popleft()
        except BlockingIOError:
            self._loop.add_writer(self._sock, self._flush)
            self._is_writing = True
            return
        except OSError as error:
            # Not at once: callers, ``submit`` among them, promise no outcome before they return.
            self._loop.call_soon(self.close, f"the executor's socket failed: {error}")
            return
        if self._is_writing:
            self._loop.remove_writer(self._sock)
            self._is_writing = False

    def _give_up(self, call_id: int, future: asyncio.Future[Reply]) -> None:
        """Forget a cancelled call: drop it in the executor, or release its answer if that just
        arrived."""
        if call_id in self._pending:
            if self._is_open:
                self._send({"drop": call_id})
        elif not future.cancelled() and future.exception() is None:
            future.result().release()  # answered in the same iteration of the loop

    # -- receiving ----------------------------------------------------------------------------

    def _on_readable(self) -> None:
        try:
            if not self._reader.receive():
                self.close("the executor closed its socket")
                return
            self._take_frames()
        except BlockingIOError:
            return
        except (OSError, FrameError, ValueError, KeyError) as error:
            self.close(f"the executor's socket failed: {error!r}")
            return
        self.last_heard = self._loop.time()
        if self._is_open and self._port.is_note_due:
            self._send({})

    def _take_frames(self) -> None:
        for frame in self._reader.frames():
            if not self._is_open:  # an earlier frame, or whom it woke, closed the connection
                break
            if isinstance(frame, memoryview):
                self._on_batch(frame)
            else:
                self._on_frame(frame)

    def _on_frame(self, frame: Frame) -> None:
        if frame.get("id") in self._predictions:
            self._on_prediction(frame)
            return
        tensors = self._port.detach(frame, self._reader)
        if "id" in frame:
            self._on_answer(frame, tensors)
        elif "event" in frame:
            self._on_event(frame["event"], self._events_taken)
        elif "beat" in frame:
            self.beat = frame["beat"]
        elif "hello" in frame and not self.hello.done():
            self.hello.set_result(frame["hello"])
        elif "outputs" in frame:
            value = frame["ok"], Signature(frame["placements"])
            self._outputs.learn(frame["outputs"], value, frame["drop_outputs"])
        elif "failed" in frame:
            self.close(f"executor start failed: {frame['failed']}")

    def _on_batch(self, body: memoryview) -> None:
        """Deliver the outputs of one batch, each in the slot of its prediction."""
        facts, records = read_answered(body)
        for call_id, queue_ns, number in records:
            prediction = self._predictions.pop(call_id)
            result, outputs = self._outputs[number]
            slot = prediction.slot
            memory, release = self._slots.memory(slot), partial(self._slots.give_back, slot)
            prediction.end(Outcome(result, outputs, memory, release, facts, queue_ns))

    def _on_prediction(self, frame: Frame) -> None:
        """Finish a prediction that was refused, or whose tensors do not fit into a slot."""
        prediction = self._predictions.pop(frame["id"])
        self._port.detach(frame, self._reader)
        self._release(prediction)
        if "error" in frame:
            prediction.end(HostError(*frame["error"]))
            return
        slab_id, facts = frame["slab"], BatchFacts(*frame["facts"])
        outputs, memory = Signature(frame["tensors"]), self._port.peer.memory(slab_id)
        release = partial(self._free, slab_id)
        queue_ns = frame["queue_ns"]
        prediction.end(Outcome(frame["ok"], outputs, memory, release, facts, queue_ns))

    def _release(self, prediction: _Prediction) -> None:
        if prediction.buffers is not None:
            prediction.buffers.release()
        else:
            self._slots.give_back(prediction.slot)

    def _on_answer(self, frame: Frame, tensors: dict[str, Any]) -> None:
        pending = self._pending.pop(frame["id"])
        if pending.buffers is not None:
            pending.buffers.release()
        future = pending.future
        if "error" in frame:
            if not future.done():
                future.set_exception(HostError(*frame["error"]))
            return
        reply = self._to_reply(frame, tensors)
        if future.done():
            reply.release()
        else:
            future.set_result(reply)

    def _to_reply(self, frame: Frame, tensors: dict[str, Any]) -> Reply:
        if not tensors:
            return Reply(frame["ok"])
        slab_id = frame["slab"]
        return _SharedReply(frame["ok"], tensors, lambda: self._free(slab_id))

    def _events_taken(self, count: int) -> None:
        if self._is_open:
            self._send({"taken": count})

    def _free(self, slab_id: int) -> None:
        if self._is_open:
            self._port.free(slab_id)
            if self._port.is_note_due:
                self._send({})

    # -- the end ------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if not self._is_open:
            raise ExecutorGone("the executor is not running")

    def _fail_pending(self, reason: str, is_overrun: bool) -> None:
        predictions, self._predictions = self._predictions, {}
        pending, self._pending = self._pending, {}
        works = self._running() if pending or predictions else ()
        for prediction in predictions.values():
            if prediction.buffers is not None:
                prediction.buffers.release()
            module = prediction.target.module
            prediction.end(end_of_prediction(module, works, reason, is_overrun=is_overrun))
        for call_id, call in pending.items():
            if call.buffers is not None:
                call.buffers.release()
            if not call.future.done():
                error = end_of_call(call_id, works, reason, is_overrun=is_overrun)
                call.future.set_exception(error)
        if not self.hello.done():
            self.hello.set_exception(ExecutorGone(reason))
            self.hello.exception()  # asyncio logs errors of futures that nobody has asked for
