"""The one thread that owns a device: answers calls, and advances jobs in between.

Order of service: control (describe, cancel, pause), then predictions, those that can be computed
together in one batch (see ``WaitingPredictions``), then step calls. Every call that was waiting
when a turn began is answered in it; calls that arrive meanwhile wait for the next turn unless they
are control. After each turn comes, alternately, one piece of a large call or one batch of a job. So
nobody starves: small calls wait for at most one piece or batch, and large calls and jobs advance
between turns.

A call is large when the host answers it in pieces: a ``Computation``, or a prediction of more
examples than are computed at once.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from app.errors.tree import HostError
from app.executor.large_call import LargeCall
from app.executor.waiting_predictions import WaitingPredictions
from app.link.answer_sizes import check_answer
from app.link.protocols import (
    Channel,
    ChannelClosed,
    Computation,
    Host,
    IncomingCall,
    Prepared,
    Priority,
)
from app.link.work_page import RunningWork, WorkPage

__all__ = ["Activity", "DeviceLoop"]

_log = logging.getLogger(__name__)


_OF_THREAD = -1
"""Used in place of a call's id for work of the device thread itself."""


class _Waiting(NamedTuple):
    """A call in a heap, ordered by priority, then by arrival."""

    priority: Priority
    id: int
    call: IncomingCall


class Activity:
    """What the device thread is doing; read by other threads."""

    def __init__(self, page: WorkPage | None = None) -> None:
        """Begin idle; activity is also written to the page, if there is one."""
        self._page = page
        self._current: tuple[str, float] | None = None
        self._works: dict[int, RunningWork] = {}

    def begin(self, what: str, call: IncomingCall | None = None) -> None:
        """Record the start of a call or batch."""
        self._current = (what, time.monotonic())
        if call is not None:
            module = module_of(call.params)
            self._write(RunningWork(call_id=call.id, method=what, module=module))

    def turn_of_job(self, job_id: int, module: str) -> None:
        """Record which job the current batch belongs to."""
        self._write(RunningWork(method="job", job_id=job_id, module=module))

    def end(self, goes_on_beside: bool = False) -> None:
        """Record that the thread is waiting for calls.

        Args:
            goes_on_beside: the call begun last continues off the device thread until it is begun
                again.
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
        """Record that no work for a call continues off the device thread."""
        self._works.pop(call.id, None)

    def _write(self, work: RunningWork) -> None:
        """Publish what the thread is doing."""
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
        self._predictions = WaitingPredictions(channel.largest_answer_bytes)

    def run(self) -> None:
        """Serve until the channel closes; a batch in progress is finished first."""
        try:
            while True:
                self._receive(self._seconds_to_wait())
                self._answer_turn()
                if self._can_continue_large():
                    self._continue_large()
                    self._receive(0.0)
                    self._answer_turn()
                if self._can_advance():
                    self._advance()
        except ChannelClosed:
            pass
        finally:
            for large in self._large:
                large.close()
            self._host.close()

    def _seconds_to_wait(self) -> float | None:
        """Return how long to wait for calls: 0 while there is work, None for no limit."""
        if self._waiting or self._can_continue_large() or self._can_advance():
            return 0.0
        return self._predictions.seconds_to_wait(time.monotonic_ns())

    def _can_advance(self) -> bool:
        """Return whether a job can continue and the channel can take its reports."""
        return self._host.has_work() and not self._channel.is_full

    def _receive(self, timeout_seconds: float | None) -> None:
        calls, dropped = self._channel.receive(timeout_seconds)
        for call in calls:
            try:
                priority = self._host.priority(call.method)
            except HostError as error:
                self._channel.refuse(call, error)
                continue
            self._let_wait(call, priority)
        if dropped:
            self._drop(frozenset(dropped))

    def _let_wait(self, call: IncomingCall, priority: Priority) -> None:
        if call.method == "predict":
            self._predictions.add(call)
        else:
            heapq.heappush(self._waiting, _Waiting(priority, call.id, call))

    def _drop(self, ids: frozenset[int]) -> None:
        # Every dropped call gets an answer, because only then does its caller free its memory.
        # A plan in progress is finished: otherwise the next call would start it again.
        dropped = [one for one in self._large if one.call.id in ids and not one.is_plan]
        given_up = [large.call for large in dropped]
        given_up += [call for call in self._put_off if call.id in ids]
        self._put_off = [call for call in self._put_off if call.id not in ids]
        for large in dropped:
            self._large.remove(large)
            self._close(large)
        given_up += self._predictions.drop(ids)
        for queue in (self._turn, self._waiting):
            given_up += [one.call for one in queue if one.id in ids]
            queue[:] = [one for one in queue if one.id not in ids]
            heapq.heapify(queue)
        for call in given_up:
            error = HostError("cancelled", f"call {call.id} was cancelled by its caller")
            self._channel.refuse(call, error)

    # -- turns --------------------------------------------------------------------------------

    def _answer_turn(self) -> None:
        """Answer the calls that are waiting now; of those that arrive meanwhile only control.

        Between two calls only the control calls that have arrived by then are answered, so that a
        stream of them cannot starve the rest.
        """
        self._turn, self._waiting = self._waiting, self._turn
        self._answer_until(Priority.PREDICT)
        self._predictions.begin_turn(time.monotonic_ns(), self._prepare)
        while batch := self._predictions.next_batch():
            self._answer_batch(batch)
            if self._turn or self._predictions.has_more:
                self._answer_control()
        self._answer_until(None)

    def _answer_until(self, priority: Priority | None) -> None:
        """Answer the turn's calls that come before a priority, or all."""
        while self._turn and (priority is None or self._turn[0].priority < priority):
            self._answer(heapq.heappop(self._turn).call)
            if self._turn:
                self._answer_control()

    def _answer_control(self) -> None:
        self._receive(0.0)
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

    # -- predictions --------------------------------------------------------------------------

    def _prepare(self, call: IncomingCall) -> Prepared | None:
        """Return a prediction that can join a batch; None for one that waits, is refused, or is
        large.

        One whose plan takes long to make waits while it is made off the device thread.
        """
        if self._has_to_wait(call):
            self._put_off.append(call)
            return None
        prepared = self._host.known(call)
        if prepared is None:
            with self._refusing(call):
                plan = self._host.plan(call)
                if plan is not None:
                    large = LargeCall(call, is_plan=True)
                    large.begin(plan, self._channel)
                    self._large.append(large)
                    return None
                prepared = self._host.prepare(call)
        # Before anything is computed, which would take as much memory as the answer.
        if prepared is not None and prepared.answer_bytes > self._channel.largest_answer_bytes:
            with self._refusing(call):
                check_answer(prepared.answer_bytes, self._channel.largest_answer_bytes)
            return None
        if prepared is not None and prepared.rows > prepared.most_rows:
            self._large.append(LargeCall(call))
            return None
        return prepared

    def _answer_batch(self, batch: Sequence[Prepared]) -> None:
        if self._has_to_wait(batch[0].call):
            self._put_off += [one.call for one in batch]
            return
        now = time.monotonic()
        late = [one.call for one in batch if 0 < one.call.deadline < now]
        if late:
            self._refuse(late, HostError("timed_out", "its deadline passed while it waited"))
            batch = [one for one in batch if one.call not in late]
        if batch:
            with self._refusing(*(one.call for one in batch)):
                predictions, facts = self._host.predict(batch)
                self._channel.reply_batch(predictions, facts)

    # -- large calls --------------------------------------------------------------------------

    def _can_continue_large(self) -> bool:
        return any(self._can_go_on(large) for large in self._large)

    def _can_go_on(self, large: LargeCall) -> bool:
        return large.can_go_on and not self._has_to_wait(large.call)

    def _has_to_wait(self, call: IncomingCall) -> bool:
        """Return whether another call is using this one's module exclusively."""
        if not self._large:
            return False
        # Two exclusive calls on one module never meet here: the second is put off when it arrives.
        alone = [one.call for one in self._large if one.is_exclusive and one.call is not call]
        return bool(alone) and module_of(call.params) in map(_module_of_call, alone)

    def _close(self, large: LargeCall) -> None:
        """Abandon what is left of a large call, and requeue the calls that it had blocked."""
        large.close()
        self._activity.forget(large.call)
        if large.is_exclusive:
            put_off, self._put_off = self._put_off, []
            # All of them, also those on other modules: those that must wait on are put off again.
            for call in sorted(put_off, key=lambda call: call.id):
                self._let_wait(call, self._host.priority(call.method))

    def _continue_large(self) -> None:
        """Compute the next piece of the large call whose turn it is."""
        large = next(one for one in self._large if self._can_go_on(one))
        self._large.remove(large)
        is_over = True
        with self._refusing(large.call, large=large):
            try:
                is_over = large.advance(self._host, self._channel)
            finally:
                if is_over:
                    self._close(large)
            if is_over and large.is_plan:
                self._predictions.add(large.call)
        if not is_over:
            self._large.append(large)

    # -- inside -------------------------------------------------------------------------------

    @contextmanager
    def _refusing(self, *calls: IncomingCall, large: LargeCall | None = None) -> Iterator[None]:
        """Refuse calls (of one method on one module) if the block raises.

        Args:
            large: the large call that the block computes a piece of, if any.
        """
        self._activity.begin(calls[0].method, calls[0])
        try:
            yield
        except HostError as error:
            self._refuse(calls, error)
        except MemoryError:
            self._refuse(
                calls, HostError("out_of_memory", "the device has not enough memory for it")
            )
        except ChannelClosed:
            raise
        except Exception as error:
            _log.exception("%s failed", calls[0].method)
            self._refuse(calls, HostError("internal", f"{type(error).__name__}: {error}"))
        finally:
            self._activity.end(large is not None and large.is_awaiting)

    def _refuse(self, calls: Sequence[IncomingCall], error: HostError) -> None:
        for call in calls:
            self._channel.refuse(call, error)

    def _advance(self) -> None:
        self._activity.begin("job")
        try:
            self._host.advance()
        finally:
            self._activity.end()


def module_of(params: Mapping[str, Any]) -> str:
    """Return the name of the module in a call's parameters, if they name one."""
    about = params.get("module") or params.get("record") or {}
    name = about if isinstance(about, str) else about.get("name", "")
    return name if isinstance(name, str) else ""


def _module_of_call(call: IncomingCall) -> str:
    return module_of(call.params)
