"""The executor's end of the socket: calls in, answers and events out."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from app.errors.tree import HostError
from app.link.answer_sizes import answer_bytes, check_answer
from app.link.client import Buffers, TensorSpecs
from app.link.event_flow import EventFlow
from app.link.frames import Frame, FrameReader, encode_frame, encode_value, send_some
from app.link.packed_frames import AnsweredRecord, BatchFacts, answered_frame, read_asked
from app.link.protocols import ChannelClosed, IncomingCall, Predicted
from app.link.shm import SlabsExhausted
from app.link.signatures import NumberedByPeer, Numbers, Signature, Target
from app.link.slab_port import SlabBuffers, SlabLimits, SlabPort, close_fds
from app.link.slots import SLOT_BYTES, SlotMap

__all__ = ["SocketChannel"]

_SPIN_NS = 150_000
"""How long a busy executor polls for the next calls before it sleeps: about a round trip of a small
prediction (``tests/benchmarks/executor_calls.py``)."""


class SocketChannel:
    """A ``Channel`` over a blocking Unix socket.

    One thread receives and answers; ``beat``, ``hello`` and ``wake`` may be called from any thread.
    """

    def __init__(self, sock: socket.socket, limits: SlabLimits) -> None:
        self._sock = sock
        self._reader = FrameReader(sock)
        self._port = SlabPort(limits)
        self.largest_answer_bytes = limits.largest_bytes
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._waker = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._waker, select.POLLIN)
        self._send_lock = threading.Lock()  # the heartbeat's thread sends, too
        self._waits_are_short = False
        self._slots: SlotMap | None = None
        self._targets: NumberedByPeer[Target] = NumberedByPeer()
        self._numbers: Numbers[Hashable] = Numbers()
        self._outputs: dict[int, Signature] = {}
        self._events = EventFlow(lambda event: self._send({"event": encode_value(event)}))

    def receive(self, timeout_seconds: float | None) -> tuple[list[IncomingCall], list[int]]:
        """Return calls and ids of dropped calls; wait for the first up to a time, None for no
        limit."""
        calls: list[IncomingCall] = []
        dropped: list[int] = []
        wait_ms = None if timeout_seconds is None else timeout_seconds * 1000
        while ready := self._ready(wait_ms):
            wait_ms = 0
            if any(descriptor == self._waker for descriptor, _ in ready):
                os.eventfd_read(self._waker)
                if len(ready) == 1:
                    continue
            if not self._read():
                raise ChannelClosed
            for frame in self._reader.frames():
                if isinstance(frame, memoryview):
                    self._take_predictions(frame, calls)
                    continue
                tensors = self._port.detach(frame, self._reader)
                if "call" in frame:
                    calls.append(_call_of(frame, tensors))
                elif "target" in frame:
                    target = Target(frame["params"], Signature(frame["placements"]))
                    self._targets.learn(frame["target"], target, frame["drop_target"])
                elif "slots" in frame:
                    self._slots = SlotMap(self._reader.take_fd())
                elif "drop" in frame:
                    dropped.append(frame["drop"])
                elif "taken" in frame:
                    self._events.taken(frame["taken"])
                elif "stop" in frame:
                    raise ChannelClosed  # calls that came with it fail when the socket is closed
            if not self._reader.may_have_more:
                break  # saves a system call per prediction
        if self._port.is_note_due:
            self._send({})
        return calls, dropped

    def _ready(self, wait_ms: float | None) -> list[tuple[int, int]]:
        """Return what can be read, as ``poll`` does.

        Waking up costs as much as a small prediction. So if the last wait was very short, as it is
        with clients that send the next request as soon as they have an answer, the thread polls for
        that long before it sleeps.
        """
        if wait_ms is not None:
            return self._poll.poll(wait_ms)
        began = time.perf_counter_ns()
        until = began + _SPIN_NS if self._waits_are_short else began
        while not (ready := self._poll.poll(0)) and time.perf_counter_ns() < until:
            pass
        ready = ready or self._poll.poll(None)
        self._waits_are_short = time.perf_counter_ns() - began < 2 * _SPIN_NS
        return ready

    def _take_predictions(self, frame: memoryview, calls: list[IncomingCall]) -> None:
        assert self._slots is not None
        memory, arrived = self._slots.memory, time.monotonic_ns()
        for call_id, number, slot, deadline, priority in read_asked(frame):
            target = self._targets[number]
            tensors = target.inputs.arrays(memory, SlotMap.begin(slot))
            call = IncomingCall(call_id, "predict", target.params, tensors)
            call.deadline, call.priority, call.arrived_ns = deadline, priority, arrived
            call.target, call.slot = target, slot
            calls.append(call)

    def reserve(self, specs: TensorSpecs) -> SlabBuffers:
        """Return tensors in shared memory for an answer; raise HostError if they do not fit."""
        check_answer(answer_bytes(specs), self.largest_answer_bytes)
        try:
            return self._port.reserve(specs)
        except SlabsExhausted as error:
            raise HostError(
                "unavailable",
                f"answers under way leave no room for this one ({error}); try again in a moment, "
                "or raise MODSERVE_MAX_ANSWERS_BYTES",
            ) from None

    def reply(
        self,
        call: IncomingCall,
        result: Mapping[str, Any],
        tensors: Mapping[str, Any] | Buffers,
    ) -> None:
        """Answer a call; HostError when the tensors do not fit into shared memory."""
        # Before memory is taken for the tensors: if this fails, the call is refused.
        frame = {"id": call.id, "ok": encode_value(result)}
        if call.method == "predict":
            waited_ns = time.monotonic_ns() - call.arrived_ns - call.infer_us * 1000
            queue_ns = max(0, waited_ns) if call.arrived_ns else 0
            frame |= {"facts": [*BatchFacts(0, infer_us=call.infer_us)], "queue_ns": queue_ns}
        self._send(frame, self._to_buffers(tensors))

    def reply_batch(self, batch: Sequence[Predicted], facts: BatchFacts) -> None:
        """Answer the predictions of a batch, in a single frame those whose outputs fit into their
        slots.

        Args:
            facts: figures of the batch, to which the time spent here is added.
        """
        called = time.monotonic_ns()
        began = called - (facts.input_us + facts.infer_us + facts.output_us) * 1000
        records = []
        for one in batch:
            queue_ns = max(0, began - one.call.arrived_ns)
            number = self._write_outputs(one) if one.call.slot >= 0 else None
            if number is not None:
                records.append(AnsweredRecord(one.call.id, queue_ns, number))
                continue
            frame = {"id": one.call.id, "ok": encode_value(one.result), "queue_ns": queue_ns}
            try:
                buffers = self._to_buffers(one.tensors)
            except HostError as error:
                self.refuse(one.call, error)
            else:
                self._send(frame | {"facts": [*_with_output(facts, called)]}, buffers)
        if records:
            self._write(answered_frame(_with_output(facts, called), records), [])

    def _write_outputs(self, one: Predicted) -> int | None:
        """Write outputs into a slot and return the number of their signature; None if they do not
        fit."""
        assert self._slots is not None
        tensors = one.tensors
        shapes = tuple((name, value.dtype, value.shape) for name, value in tensors.items())
        key = orjson.dumps(one.result), shapes  # dicts cannot be keys
        number = self._numbers.find(key)
        if number is None:
            number = self._number_outputs(key, one)
        signature = self._outputs[number]
        if signature.nbytes > SLOT_BYTES:
            return None
        begin = SlotMap.begin(one.call.slot)
        for name, target in signature.arrays(self._slots.memory, begin).items():
            target[...] = tensors[name]
        return number

    def _number_outputs(self, key: Hashable, one: Predicted) -> int:
        signature = Signature.of({name: (v.shape, v.dtype) for name, v in one.tensors.items()})
        number, dropped = self._numbers.add(key)
        self._outputs[number] = signature
        if dropped is not None:
            del self._outputs[dropped]
        value = encode_value(one.result)
        frame = {"outputs": number, "ok": value, "drop_outputs": dropped}
        self._send(frame | {"placements": signature.placements})
        return number

    def _to_buffers(self, tensors: Mapping[str, Any] | Buffers) -> SlabBuffers | None:
        if isinstance(tensors, SlabBuffers):
            return tensors
        if not isinstance(tensors, Mapping) or not tensors:
            return None
        arrays = {name: np.asarray(value) for name, value in tensors.items()}
        buffers = self.reserve({name: (one.shape, one.dtype) for name, one in arrays.items()})
        buffers.copy(arrays)
        return buffers

    def refuse(self, call: IncomingCall, error: HostError) -> None:
        """Answer a call with an error."""
        self._send({"id": call.id, "error": error.to_row()})

    def emit(self, event: dict[str, Any]) -> None:
        """Report an event of a job; see ``EventFlow`` for which events may be dropped."""
        self._events.emit(event)

    @property
    def is_full(self) -> bool:
        """True while jobs should wait, because too many events are unacknowledged."""
        return self._events.is_full

    def wake(self) -> None:
        """Make ``receive`` return although nothing has arrived."""
        os.eventfd_write(self._waker, 1)

    def hello(self, facts: Mapping[str, Any]) -> None:
        """Announce that this executor is ready."""
        # Not by ``_send``, here and in ``beat``: slabs belong to the thread that answers calls.
        self._post({"hello": encode_value(facts)}, [])

    def fail(self, reason: str) -> None:
        """Announce that this executor failed to start."""
        self._post({"failed": encode_value(reason)}, [])

    def beat(self, facts: Mapping[str, Any]) -> None:
        """Send a heartbeat."""
        self._post({"beat": encode_value(facts)}, [])

    def close(self) -> None:
        """Close the socket and release the shared memory."""
        self._reader.close()
        self._port.close()
        self._sock.close()
        os.close(self._waker)

    def _read(self) -> bool:
        try:
            return self._reader.receive()
        except ConnectionError:
            return False

    def _send(self, frame: Frame, buffers: SlabBuffers | None = None) -> None:
        fds = self._port.attach(frame, buffers)
        try:
            self._post(frame, fds)
        finally:
            close_fds(fds)

    def _post(self, frame: Frame, fds: list[int]) -> None:
        self._write(encode_frame(frame), fds)

    def _write(self, content: bytes, fds: list[int]) -> None:
        data = memoryview(content)
        try:
            # Blocks while the socket is full. No deadlock: the API process queues what it cannot
            # send, and goes on reading.
            with self._send_lock:
                sent = send_some(self._sock, data, fds)
                if sent < len(data):
                    self._sock.sendall(data[sent:])
        except OSError as error:
            raise ChannelClosed from error


def _with_output(facts: BatchFacts, since_ns: int) -> BatchFacts:
    """Return the facts of a batch with the time since its outputs began to be written."""
    output_us = facts.output_us + round((time.monotonic_ns() - since_ns) / 1000)
    return facts._replace(output_us=output_us)


def _call_of(frame: Frame, tensors: dict[str, Any]) -> IncomingCall:
    call = IncomingCall(frame["id"], frame["call"], frame["params"], tensors)
    if "deadline" in frame:
        call.deadline, call.priority = frame["deadline"], frame["priority"]
        call.arrived_ns = time.monotonic_ns()
    return call
