"""Queues of predictions that wait for the device, and their grouping into batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeAlias

from app.link.protocols import IncomingCall, Prepared

__all__ = ["WaitingPredictions"]

Batch: TypeAlias = list[Prepared]
Prepare: TypeAlias = Callable[[IncomingCall], Prepared | None]
"""Prepares a call for a batch; None for one that is answered in another way."""


class WaitingPredictions:
    """Waiting predictions, grouped by what can be computed in one batch.

    When the device is free, each group becomes one batch per turn, up to the largest batch size.
    Within a group, calls are ordered by urgency, then by arrival. The parts of a sequence are
    prepared one at a time, each after the previous one was handed out or dropped.
    """

    def __init__(self, most_bytes: int) -> None:
        """Begin without predictions.

        Args:
            most_bytes: limit on the outputs of a batch.
        """
        self._most_bytes = most_bytes
        self._new: list[IncomingCall] = []
        self._groups: dict[Hashable, deque[Prepared]] = {}
        self._turn: deque[Hashable] = deque()
        self._later_parts: dict[Hashable, list[IncomingCall]] = {}
        """By sequence with a part waiting in a group: the parts that come after that one."""

    def add(self, call: IncomingCall) -> None:
        """Enqueue a prediction."""
        self._new.append(call)

    def drop(self, ids: frozenset[int]) -> list[IncomingCall]:
        """Remove cancelled calls and return them."""
        for parts in self._later_parts.values():
            self._new += [call for call in parts if call.id in ids]
            parts[:] = [call for call in parts if call.id not in ids]
        given_up = [call for call in self._new if call.id in ids]
        self._new = [call for call in self._new if call.id not in ids]
        for group in list(self._groups):
            queue = self._groups[group]
            dropped = [one.call for one in queue if one.call.id in ids]
            given_up += dropped
            self._let_later_parts_come(dropped)
            self._keep(group, deque(one for one in queue if one.call.id not in ids))
        return given_up

    def seconds_to_wait(self, now_ns: int) -> float | None:
        """Return the time until there is a batch to compute; None if nothing is waiting."""
        if self._new:
            return 0.0
        due = min((_due_ns(queue) for queue in self._groups.values()), default=None)
        return None if due is None else max(0.0, (due - now_ns) * 1e-9)

    def begin_turn(self, now_ns: int, prepare: Prepare) -> None:
        """Begin a turn, in which each due group gets a batch; later arrivals wait for the next
        turn."""
        # By id, which is the order of submission: calls that were put off while another one used
        # their module come back behind later ones, perhaps behind later parts of their sequence.
        calls, self._new = sorted(self._new, key=lambda call: call.id), []
        for call in calls:
            sequence = _sequence_of(call)
            if sequence in self._later_parts:
                self._later_parts[sequence].append(call)
                continue
            prepared = prepare(call)
            if prepared is not None:
                if sequence is not None:
                    self._later_parts[sequence] = []
                queue = self._groups.setdefault(prepared.group, deque())
                _insert(queue, prepared)
        self._turn = deque(
            group for group, queue in self._groups.items() if _due_ns(queue) <= now_ns
        )

    @property
    def has_more(self) -> bool:
        """True while the turn is not over."""
        return bool(self._turn)

    def next_batch(self) -> Batch | None:
        """Return the next batch of the turn; None if it is over."""
        while self._turn:
            group = self._turn.popleft()
            queue = self._groups.get(group)
            if queue:
                batch = _take(queue, self._most_bytes)
                self._keep(group, queue)
                self._let_later_parts_come(one.call for one in batch)
                return batch
        return None

    def _let_later_parts_come(self, calls: Iterable[IncomingCall]) -> None:
        """Schedule later parts of the same sequences for the next turn."""
        if self._later_parts:
            freed = [self._later_parts.pop(_sequence_of(call), []) for call in calls]
            self._new[:0] = [call for parts in freed for call in parts]

    def _keep(self, group: Hashable, queue: deque[Prepared]) -> None:
        """Set a group's queue. An empty group is removed, so that it rejoins at the end."""
        if queue:
            self._groups[group] = queue
        else:
            self._groups.pop(group, None)


def _sequence_of(call: IncomingCall) -> Hashable | None:
    """Return the key of the sequence that a prediction is a part of, or None."""
    part: Mapping[str, Any] | None = call.params.get("part")
    return None if part is None else (call.params["module"], part["sequence_id"])


def _insert(queue: deque[Prepared], prepared: Prepared) -> None:
    """Insert into a queue behind calls of the same urgency."""
    place = len(queue)
    while place and queue[place - 1].call.priority > prepared.call.priority:
        place -= 1
    queue.insert(place, prepared)


def _take(queue: deque[Prepared], most_bytes: int) -> Batch:
    """Take as many as fit into a batch; one that exceeds a limit is a batch of its own."""
    batch = [queue.popleft()]
    room = batch[0].most_rows - batch[0].rows
    room_bytes = most_bytes - batch[0].answer_bytes
    while queue and queue[0].rows <= room and queue[0].answer_bytes <= room_bytes:
        room -= queue[0].rows
        room_bytes -= queue[0].answer_bytes
        batch.append(queue.popleft())
    return batch


def _due_ns(queue: deque[Prepared]) -> int:
    """Return when a group's batch is due: now if it is full."""
    first = queue[0]
    if not first.delay_ns or sum(one.rows for one in queue) >= first.most_rows:
        return 0
    return min(one.call.arrived_ns for one in queue) + first.delay_ns
