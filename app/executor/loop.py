"""The one thread that owns a device: answers calls, and advances jobs in between.

Order of service: control (describe, cancel, pause), then predictions, then step calls, then one
batch of one job. Every call that was waiting when a batch ended is answered before the next batch
begins, but for large predictions, of which one is; calls that arrive meanwhile wait for the batch
after it unless they are control. So neither serving nor training starves the other, nor do a few
large predictions the many small ones.
"""

from __future__ import annotations

import heapq
import logging
import time
from typing import Any, NamedTuple

from app.errors import HostError
from app.link.protocols import Channel, ChannelClosed, Host, IncomingCall, Priority

__all__ = ["Activity", "DeviceLoop"]

_log = logging.getLogger(__name__)

_LARGE_BYTES = 1 << 20


class _Waiting(NamedTuple):
    """A call in a heap: by priority, predictions of many examples behind those of few."""

    priority: Priority
    is_large: bool
    id: int
    call: IncomingCall

    @classmethod
    def of(cls, priority: Priority, call: IncomingCall) -> _Waiting:
        size = sum(tensor.nbytes for tensor in call.tensors.values())
        is_large = priority is Priority.PREDICT and size > _LARGE_BYTES
        return cls(priority, is_large, call.id, call)


class Activity:
    """What the device thread does at present; read by other threads."""

    def __init__(self) -> None:
        self._current: tuple[str, float] | None = None

    def begin(self, what: str) -> None:
        """Note the start of a call or batch."""
        self._current = (what, time.monotonic())

    def end(self) -> None:
        """Note that the thread waits for calls."""
        self._current = None

    def report(self) -> dict[str, Any]:
        """Return ``doing`` (a method, ``"job"`` or None) and ``busy_seconds``."""
        current = self._current
        if current is None:
            return {"doing": None, "busy_seconds": 0.0}
        return {"doing": current[0], "busy_seconds": time.monotonic() - current[1]}


class DeviceLoop:
    """Serves one channel with one host until the channel closes."""

    def __init__(self, host: Host, channel: Channel, activity: Activity | None = None) -> None:
        self._host = host
        self._channel = channel
        self._activity = activity or Activity()
        self._waiting: list[_Waiting] = []
        self._turn: list[_Waiting] = []

    def run(self) -> None:
        """Serve until the channel closes; a batch under way is finished first."""
        try:
            while True:
                self._receive(block=not self._waiting and not self._host.has_work())
                self._answer_turn()
                if self._host.has_work():
                    self._advance()
        except ChannelClosed:
            pass
        finally:
            self._host.close()

    def _receive(self, block: bool) -> None:
        calls, dropped = self._channel.receive(None if block else 0.0)
        for call in calls:
            try:
                priority = self._host.priority(call.method)
            except HostError as error:
                self._channel.refuse(call, error)
                continue
            heapq.heappush(self._waiting, _Waiting.of(priority, call))
        if dropped:
            self._drop(frozenset(dropped))

    def _drop(self, ids: frozenset[int]) -> None:
        for queue in (self._turn, self._waiting):
            given_up = [one for one in queue if one.id in ids]
            queue[:] = [one for one in queue if one.id not in ids]
            heapq.heapify(queue)
            for one in given_up:
                error = HostError("cancelled", f"call {one.id} was given up by its caller")
                self._channel.refuse(one.call, error)

    def _answer_turn(self) -> None:
        """Answer what waits now, one large call of it; of what arrives meanwhile only control."""
        self._turn, self._waiting = self._waiting, self._turn
        while self._turn:
            answered = heapq.heappop(self._turn)
            self._answer(answered.call)
            if answered.is_large:
                self._put_off_large()
            if self._turn:
                self._receive(block=False)
                while self._waiting and self._waiting[0].priority is Priority.CONTROL:
                    heapq.heappush(self._turn, heapq.heappop(self._waiting))

    def _put_off_large(self) -> None:
        """Leave the other large calls to the next turns, in their order."""
        for one in self._turn:
            if one.is_large:
                heapq.heappush(self._waiting, one)
        self._turn[:] = [one for one in self._turn if not one.is_large]
        heapq.heapify(self._turn)

    def _answer(self, call: IncomingCall) -> None:
        self._activity.begin(call.method)
        try:
            result, tensors = self._host.handle(call.method, call.params, call.tensors)
            self._channel.reply(call, result, tensors)
        except HostError as error:
            self._channel.refuse(call, error)
        except MemoryError:
            self._channel.refuse(call, HostError("unavailable", "out of memory in the executor"))
        except ChannelClosed:
            raise
        except Exception as error:
            _log.exception("%s failed", call.method)
            message = f"{type(error).__name__}: {error}"
            self._channel.refuse(call, HostError("internal", message))
        finally:
            self._activity.end()

    def _advance(self) -> None:
        self._activity.begin("job")
        try:
            self._host.advance()
        finally:
            self._activity.end()
