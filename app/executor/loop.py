"""The one thread that owns a device: answers calls, and advances jobs in between.

Order of service: control (describe, cancel, pause), then predictions, then step calls. Every call
that was waiting when a turn began is answered in it; calls that arrive meanwhile wait for the next
turn unless they are control. After a turn comes one piece of one large call, after another turn one
batch of one job. So nobody starves: small calls wait for a piece or a batch at most, and large
calls and jobs go on by one of theirs between any two turns.

A call is large when its tensors are, or when the host answers it in pieces (a ``Computation``).
"""

from __future__ import annotations

import heapq
import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from app.errors import HostError
from app.executor.large_call import LargeCall
from app.link.protocols import Channel, ChannelClosed, Computation, Host, IncomingCall, Priority
from app.link.work_page import RunningWork, WorkPage

__all__ = ["Activity", "DeviceLoop"]

_log = logging.getLogger(__name__)

_LARGE_BYTES = 1 << 20


_OF_THREAD = -1
"""Stands for the id of a call where the device's thread itself is at something."""


class _Waiting(NamedTuple):
    """A call in a heap: by priority, then as they came."""

    priority: Priority
    id: int
    call: IncomingCall


class Activity:
    """What the device thread does at present; read by other threads."""

    def __init__(self, page: WorkPage | None = None) -> None:
        """Begin with nothing; what is done is noted on a page, too, if there is one."""
        self._page = page
        self._current: tuple[str, float] | None = None
        self._works: dict[int, RunningWork] = {}

    def begin(self, what: str, call: IncomingCall | None = None) -> None:
        """Note the start of a call or batch."""
        self._current = (what, time.monotonic())
        if call is not None:
            module = module_of(call.params)
            self._write(RunningWork(call_id=call.id, method=what, module=module))

    def turn_of_job(self, job_id: int, module: str) -> None:
        """Note whose turn it is within the batch that was begun."""
        self._write(RunningWork(method="job", job_id=job_id, module=module))

    def end(self, goes_on_beside: bool = False) -> None:
        """Note that the thread waits for calls.

        Args:
            goes_on_beside: what was begun last goes on beside the thread until it is begun again.
        """
        self._current = None
        running = self._works.pop(_OF_THREAD, None)
        if goes_on_beside and running is not None:
            self._works[running.call_id] = running
        if self._page is not None and self._works:
            self._page.write(self._works.values())
        elif self._page is not None:
            self._page.clear()

    def forget(self, call: IncomingCall) -> None:
        """Note that nothing goes on for a call any more."""
        self._works.pop(call.id, None)

    def _write(self, work: RunningWork) -> None:
        """Note what the thread is at."""
        if self._page is not None:
            self._works.pop(work.call_id, None)
            self._works[_OF_THREAD] = work
            self._page.write(self._works.values())

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
        self._large: deque[LargeCall] = deque()
        self._put_off: list[IncomingCall] = []

    def run(self) -> None:
        """Serve until the channel closes; a batch under way is finished first."""
        try:
            while True:
                self._receive(block=not self._has_work())
                self._answer_turn()
                if self._can_continue_large():
                    self._continue_large()
                    self._receive(block=False)
                    self._answer_turn()
                if self._can_advance():
                    self._advance()
        except ChannelClosed:
            pass
        finally:
            for large in self._large:
                large.close()
            self._host.close()

    def _has_work(self) -> bool:
        return bool(self._waiting) or self._can_continue_large() or self._can_advance()

    def _can_advance(self) -> bool:
        """Tell whether a job can go on, and what it reports be taken."""
        return self._host.has_work() and not self._channel.is_full

    def _receive(self, block: bool) -> None:
        calls, dropped = self._channel.receive(None if block else 0.0)
        for call in calls:
            try:
                priority = self._host.priority(call.method)
            except HostError as error:
                self._channel.refuse(call, error)
                continue
            if priority is Priority.PREDICT and _nbytes(call) > _LARGE_BYTES:
                self._large.append(LargeCall(call))
            else:
                heapq.heappush(self._waiting, _Waiting(priority, call.id, call))
        if dropped:
            self._drop(frozenset(dropped))

    def _drop(self, ids: frozenset[int]) -> None:
        given_up = [large.call for large in self._large if large.call.id in ids]
        given_up += [call for call in self._put_off if call.id in ids]
        self._put_off = [call for call in self._put_off if call.id not in ids]
        for large in list(self._large):
            if large.call.id in ids:
                self._large.remove(large)
                self._close(large)
        for queue in (self._turn, self._waiting):
            given_up += [one.call for one in queue if one.id in ids]
            queue[:] = [one for one in queue if one.id not in ids]
            heapq.heapify(queue)
        for call in given_up:
            error = HostError("cancelled", f"call {call.id} was given up by its caller")
            self._channel.refuse(call, error)

    # -- one turn of all that waits -----------------------------------------------------------

    def _answer_turn(self) -> None:
        """Answer what waits now; of what arrives meanwhile only control.

        Between two of the calls only the control that has arrived by then is answered, so that a
        stream of it holds nobody up for ever.
        """
        self._turn, self._waiting = self._waiting, self._turn
        while self._turn:
            self._answer(heapq.heappop(self._turn).call)
            if self._turn:
                self._receive(block=False)
                for call in self._take_control():
                    self._answer(call)

    def _take_control(self) -> list[IncomingCall]:
        calls = []
        while self._waiting and self._waiting[0].priority is Priority.CONTROL:
            calls.append(heapq.heappop(self._waiting).call)
        return calls

    def _answer(self, call: IncomingCall) -> None:
        if self._has_to_wait(call):
            self._put_off.append(call)
            return
        with self._refusing(call):
            answer = self._host.handle(call.method, call.params, call.tensors)
            if isinstance(answer, Computation):
                large = LargeCall(call)
                large.begin(answer, self._channel)
                self._large.append(large)
            else:
                self._channel.reply(call, *answer)

    # -- large calls --------------------------------------------------------------------------

    def _can_continue_large(self) -> bool:
        return any(self._can_go_on(large) for large in self._large)

    def _can_go_on(self, large: LargeCall) -> bool:
        return large.can_go_on and not self._has_to_wait(large.call)

    def _has_to_wait(self, call: IncomingCall) -> bool:
        """Tell whether another call has this one's module to itself at present."""
        alone = [one.call for one in self._large if one.is_exclusive and one.call is not call]
        return bool(alone) and module_of(call.params) in map(_module_of_call, alone)

    def _close(self, large: LargeCall) -> None:
        """Give up what is left of a large call, and let those wait that it had put off."""
        large.close()
        self._activity.forget(large.call)
        if large.is_exclusive:
            for call in self._put_off:
                priority = self._host.priority(call.method)
                heapq.heappush(self._waiting, _Waiting(priority, call.id, call))
            self._put_off.clear()

    def _continue_large(self) -> None:
        """Do the next piece of the large call whose turn it is."""
        large = next(one for one in self._large if self._can_go_on(one))
        self._large.remove(large)
        is_over = True
        with self._refusing(large.call, large):
            try:
                is_over = large.advance(self._host, self._channel)
            finally:
                if is_over:
                    self._close(large)
        if not is_over:
            self._large.append(large)

    # -- inside -------------------------------------------------------------------------------

    @contextmanager
    def _refusing(self, call: IncomingCall, large: LargeCall | None = None) -> Iterator[None]:
        """Refuse a call that raises within the block, which does a piece of it if it is large."""
        self._activity.begin(call.method, call)
        try:
            yield
        except HostError as error:
            self._channel.refuse(call, error)
        except MemoryError:
            self._channel.refuse(
                call, HostError("out_of_memory", "the device has no memory for it")
            )
        except ChannelClosed:
            raise
        except Exception as error:
            _log.exception("%s failed", call.method)
            message = f"{type(error).__name__}: {error}"
            self._channel.refuse(call, HostError("internal", message))
        finally:
            self._activity.end(large is not None and large.is_awaiting)

    def _advance(self) -> None:
        self._activity.begin("job")
        try:
            self._host.advance()
        finally:
            self._activity.end()


def module_of(params: Mapping[str, Any]) -> str:
    """Return the name of the module that a call's parameters are about, if they are about one."""
    about = params.get("module") or params.get("record") or {}
    name = about if isinstance(about, str) else about.get("name", "")
    return name if isinstance(name, str) else ""


def _module_of_call(call: IncomingCall) -> str:
    return module_of(call.params)


def _nbytes(call: IncomingCall) -> int:
    return sum(tensor.nbytes for tensor in call.tensors.values())
