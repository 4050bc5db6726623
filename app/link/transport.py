"""The API process's end of the socket: calls out, answers and events in, on the event loop.

Frames to the executor: ``{id, call, params}``, ``{drop: id}``, ``{taken: events}``, ``{stop}``.
Frames from it: ``{hello}``, ``{id, ok}``, ``{id, error: [code, message, field]}``, ``{event}``,
``{beat}``. Each may carry the fields of shared memory (``slab_port``). Answers come in any order.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.errors import ExecutorGone, ExecutorKilled, HostError
from app.link.client import Buffers, Reply, Tensors, TensorSpecs
from app.link.frames import (
    Frame,
    FrameError,
    FrameReader,
    encode_frame,
    encode_value,
    send_some,
)
from app.link.shm import SlabsExhausted
from app.link.slab_port import SlabBuffers, SlabLimits, SlabPort, close_fds
from app.link.work_page import RunningWork

__all__ = ["Connection"]


@dataclass(frozen=True, slots=True)
class _SharedReply(Reply):
    """A reply whose tensors lie in a slab of the executor."""

    free: Callable[[], None] | None = None

    def release(self) -> None:
        """Give the slab back; the tensors are gone from here on, a second call does nothing."""
        if self.tensors and self.free is not None:
            self.tensors.clear()
            self.free()


@dataclass(slots=True)
class _Pending:
    future: asyncio.Future[Reply]
    buffers: SlabBuffers | None


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
            on_event: called with every event of a job, and with what is to be called with the
                number of events that were entered.
            on_closed: called once when the other side is gone.
            running: returns what the other side was at when it was gone.
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
        self._next_id = 0
        self._is_open = True
        self._is_writing = False
        self.hello: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self.beat: dict[str, Any] = {}
        self.last_heard = self._loop.time()
        self._loop.add_reader(sock, self._on_readable)

    @property
    def is_open(self) -> bool:
        """True until the other side is gone or ``close`` was called."""
        return self._is_open

    @property
    def calls_under_way(self) -> int:
        """How many calls wait for their answer."""
        return len(self._pending)

    @property
    def request_bytes(self) -> int:
        """Shared memory held by requests under way or reserved."""
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
            value = encode_value(params or {})
            buffers = self._to_buffers(tensors)
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

    def stop(self) -> None:
        """Ask the executor to end after the batch under way."""
        if self._is_open:
            self._send({"stop": True})

    def close(self, reason: str) -> None:
        """Close the socket; every call that waits fails with ExecutorGone."""
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
        self._fail_pending(reason)
        self._port.close()
        self._on_closed()

    # -- sending ------------------------------------------------------------------------------

    def _to_buffers(self, tensors: Tensors | Buffers | None) -> SlabBuffers | None:
        if isinstance(tensors, Buffers):
            if not isinstance(tensors, SlabBuffers) or not tensors.is_from(self._port.pool):
                raise ExecutorGone("the executor that these buffers were reserved from is gone")
            return tensors
        if not tensors:
            return None
        try:
            return self._port.copy(tensors)
        except SlabsExhausted as error:
            raise HostError("unavailable", f"the request cannot be taken: {error}") from None

    def _send(self, frame: Frame, buffers: SlabBuffers | None = None) -> None:
        fds = self._port.attach(frame, buffers)
        self._outbox.append((memoryview(encode_frame(frame)), fds))
        if len(self._outbox) == 1:
            self._flush()

    def _flush(self) -> None:
        try:
            while self._outbox:
                data, fds = self._outbox[0]
                sent = send_some(self._sock, data, fds)
                close_fds(fds)
                if sent < len(data):
                    self._outbox[0] = (data[sent:], fds)
                else:
                    self._outbox.popleft()
        except BlockingIOError:
            self._loop.add_writer(self._sock, self._flush)
            self._is_writing = True
            return
        except OSError as error:
            self.close(f"the executor's socket failed: {error}")
            return
        if self._is_writing:
            self._loop.remove_writer(self._sock)
            self._is_writing = False

    def _give_up(self, call_id: int, future: asyncio.Future[Reply]) -> None:
        """Forget a cancelled call: drop it in the executor, or release the answer it just got."""
        if call_id in self._pending:
            if self._is_open:
                self._send({"drop": call_id})
        elif not future.cancelled() and future.exception() is None:
            future.result().release()

    # -- receiving ----------------------------------------------------------------------------

    def _on_readable(self) -> None:
        try:
            if not self._reader.receive():
                self.close("the executor closed its socket")
                return
            for frame in self._reader.frames():
                if self._is_open:
                    self._on_frame(frame)
        except BlockingIOError:
            return
        except (OSError, FrameError, ValueError, KeyError) as error:
            self.close(f"the executor's socket failed: {error!r}")
            return
        self.last_heard = self._loop.time()
        if self._is_open and self._port.is_note_due:
            self._send({})

    def _on_frame(self, frame: Frame) -> None:
        tensors = self._port.detach(frame, self._reader)
        if "id" in frame:
            self._on_answer(frame, tensors)
        elif "event" in frame:
            self._on_event(frame["event"], self._events_taken)
        elif "beat" in frame:
            self.beat = frame["beat"]
        elif "hello" in frame and not self.hello.done():
            self.hello.set_result(frame["hello"])
        elif "failed" in frame:
            self.close(f"the executor cannot be: {frame['failed']}")

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

    def _fail_pending(self, reason: str) -> None:
        pending, self._pending = self._pending, {}
        works = {work.call_id: work for work in self._running()} if pending else {}
        for call_id, call in pending.items():
            if call.buffers is not None:
                call.buffers.release()
            if call.future.done():
                continue
            if (work := works.get(call_id)) is not None:
                what = f"the executor was killed or crashed while it ran this call ({work}): "
                call.future.set_exception(ExecutorKilled(what + reason))
            else:
                call.future.set_exception(ExecutorGone(reason))
        if not self.hello.done():
            self.hello.set_exception(ExecutorGone(reason))
            with contextlib.suppress(ExecutorGone):
                self.hello.exception()
