"""The executor's end of the socket: calls in, answers and events out."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Mapping
from typing import Any

from app.errors import HostError
from app.link.client import Buffers, TensorSpecs
from app.link.event_flow import EventFlow
from app.link.frames import Frame, FrameReader, encode_frame, encode_value, send_some
from app.link.protocols import ChannelClosed, IncomingCall
from app.link.shm import SlabsExhausted
from app.link.slab_port import SlabBuffers, SlabLimits, SlabPort, close_fds

__all__ = ["SocketChannel"]


class SocketChannel:
    """A ``Channel`` over a blocking Unix socket.

    One thread receives and answers; ``beat``, ``hello`` and ``wake`` may be called from any thread.
    """

    def __init__(self, sock: socket.socket, limits: SlabLimits) -> None:
        self._sock = sock
        self._reader = FrameReader(sock)
        self._port = SlabPort(limits)
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._waker = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._waker, select.POLLIN)
        self._send_lock = threading.Lock()
        self._events = EventFlow(lambda event: self._send({"event": encode_value(event)}))

    def receive(self, timeout_seconds: float | None) -> tuple[list[IncomingCall], list[int]]:
        """Return calls and dropped ids; wait for the first so long, None for ever."""
        calls: list[IncomingCall] = []
        dropped: list[int] = []
        wait_ms = None if timeout_seconds is None else timeout_seconds * 1000
        while ready := self._poll.poll(wait_ms):
            wait_ms = 0
            if any(descriptor == self._waker for descriptor, _ in ready):
                os.eventfd_read(self._waker)
                if len(ready) == 1:
                    continue
            if not self._read():
                raise ChannelClosed
            for frame in self._reader.frames():
                tensors = self._port.detach(frame, self._reader)
                if "call" in frame:
                    calls.append(IncomingCall(frame["id"], frame["call"], frame["params"], tensors))
                elif "drop" in frame:
                    dropped.append(frame["drop"])
                elif "taken" in frame:
                    self._events.taken(frame["taken"])
                elif "stop" in frame:
                    raise ChannelClosed
        if self._port.is_note_due:
            self._send({})
        return calls, dropped

    def reserve(self, specs: TensorSpecs) -> SlabBuffers:
        """Return tensors in shared memory for an answer; raise HostError for too much."""
        try:
            return self._port.reserve(specs)
        except SlabsExhausted as error:
            raise HostError("unavailable", f"the answer has no room: {error}") from None

    def reply(
        self,
        call: IncomingCall,
        result: Mapping[str, Any],
        tensors: Mapping[str, Any] | Buffers,
    ) -> None:
        """Answer a call; HostError when the tensors do not fit into shared memory."""
        value = encode_value(result)
        buffers = None
        if isinstance(tensors, SlabBuffers):
            buffers = tensors
        elif isinstance(tensors, Mapping) and tensors:
            try:
                buffers = self._port.copy(tensors)
            except SlabsExhausted as error:
                raise HostError("unavailable", f"the answer cannot be sent: {error}") from None
        self._send({"id": call.id, "ok": value}, buffers)

    def refuse(self, call: IncomingCall, error: HostError) -> None:
        """Answer a call with an error."""
        self._send({"id": call.id, "error": error.to_row()})

    def emit(self, event: dict[str, Any]) -> None:
        """Report an event of a job; see ``EventFlow`` for which may be left out."""
        self._events.emit(event)

    @property
    def is_full(self) -> bool:
        """True while jobs should wait: too many events are under way."""
        return self._events.is_full

    def wake(self) -> None:
        """Let ``receive`` return, though nothing arrived."""
        os.eventfd_write(self._waker, 1)

    def hello(self, facts: Mapping[str, Any]) -> None:
        """Say that this executor is ready."""
        self._write({"hello": encode_value(facts)}, [])

    def fail(self, reason: str) -> None:
        """Say that this executor will never be ready."""
        self._write({"failed": encode_value(reason)}, [])

    def beat(self, facts: Mapping[str, Any]) -> None:
        """Say that this process lives."""
        self._write({"beat": encode_value(facts)}, [])

    def close(self) -> None:
        """Close the socket and let the shared memory go."""
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
            self._write(frame, fds)
        finally:
            close_fds(fds)

    def _write(self, frame: Frame, fds: list[int]) -> None:
        data = memoryview(encode_frame(frame))
        try:
            with self._send_lock:
                sent = send_some(self._sock, data, fds)
                if sent < len(data):
                    self._sock.sendall(data[sent:])
        except OSError as error:
            raise ChannelClosed from error
