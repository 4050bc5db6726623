"""Batching waiting predictions: greedy, fair, urgent ones first, limited in size."""

from __future__ import annotations

import pytest

from app.executor.waiting_predictions import WaitingPredictions
from app.link.protocols import IncomingCall, Prepared

MS = 1_000_000
MOST_BYTES = 100


def call(number: int, priority: int = 0, arrived_ns: int = 0) -> IncomingCall:
    return IncomingCall(number, "predict", {}, priority=priority, arrived_ns=arrived_ns)


class Rows:
    """Prepares calls: group ``id // 100``, with the given number of rows."""

    def __init__(self, rows: dict[int, int] | None = None, most: int = 4, delay_ns: int = 0):
        self.rows, self.most, self.delay_ns = rows or {}, most, delay_ns
        self.refused: set[int] = set()
        self.answer_bytes = 0

    def __call__(self, call: IncomingCall) -> Prepared | None:
        if call.id in self.refused:
            return None
        rows = self.rows.get(call.id, 1)
        return Prepared(
            call, call.id // 100, rows, self.most, self.delay_ns, answer_bytes=self.answer_bytes
        )


def turn(waiting: WaitingPredictions, prepare: Rows, now_ns: int = 0) -> list[list[int]]:
    waiting.begin_turn(now_ns, prepare)
    batches = []
    while batch := waiting.next_batch():
        batches.append([one.call.id for one in batch])
    return batches


def waiting(*calls: IncomingCall) -> WaitingPredictions:
    made = WaitingPredictions(MOST_BYTES)
    for one in calls:
        made.add(one)
    return made


def test_everything_waiting_in_a_group_becomes_one_batch():
    assert turn(waiting(call(1), call(2), call(3)), Rows()) == [[1, 2, 3]]


def test_a_full_batch_leaves_the_rest_to_the_next_turn():
    queue = waiting(*(call(n) for n in range(1, 11)))
    assert turn(queue, Rows()) == [[1, 2, 3, 4]]
    assert queue.seconds_to_wait(0) == 0
    assert turn(queue, Rows()) == [[5, 6, 7, 8]]
    assert turn(queue, Rows()) == [[9, 10]]
    assert queue.seconds_to_wait(0) is None


def test_a_batch_has_no_more_outputs_than_one_answer_may_have():
    prepare = Rows()
    prepare.answer_bytes = MOST_BYTES // 2
    queue = waiting(*(call(n) for n in range(1, 6)))
    assert [turn(queue, prepare) for _ in range(3)] == [[[1, 2]], [[3, 4]], [[5]]]


def test_the_rows_of_one_call_stay_together():
    queue = waiting(call(1), call(2), call(3))
    assert turn(queue, Rows({1: 3, 2: 2, 3: 1})) == [[1]]
    assert turn(queue, Rows()) == [[2, 3]]


def test_groups_alternate_one_batch_each():
    queue = waiting(*(call(n) for n in (100, 101, 102, 103, 104, 200, 300)))
    assert turn(queue, Rows()) == [[100, 101, 102, 103], [200], [300]]
    queue.add(call(201))
    assert turn(queue, Rows()) == [[104], [201]]


def test_urgent_calls_go_first_within_their_group():
    queue = waiting(call(1, priority=2), call(2), call(3, priority=1), call(4), call(5))
    assert turn(queue, Rows(most=2)) == [[2, 4]]
    assert turn(queue, Rows(most=2)) == [[5, 3]]
    assert turn(queue, Rows(most=2)) == [[1]]


def test_refused_calls_are_in_no_batch():
    prepare = Rows()
    prepare.refused = {2}
    assert turn(waiting(call(1), call(2), call(3)), prepare) == [[1, 3]]


def test_abandoned_calls_are_in_no_batch_wherever_they_wait():
    queue = waiting(*(call(n) for n in range(1, 8)))
    turn(queue, Rows())
    queue.add(call(8))
    dropped = queue.drop(frozenset({5, 6, 8, 99}))
    assert sorted(one.id for one in dropped) == [5, 6, 8]
    assert turn(queue, Rows()) == [[7]]


def test_a_group_of_abandoned_calls_disappears():
    queue = waiting(call(1))
    queue.begin_turn(0, Rows(delay_ns=10 * MS))
    queue.drop(frozenset({1}))
    assert queue.seconds_to_wait(0) is None


def test_a_partial_batch_waits_for_more_up_to_its_delay():
    prepare = Rows(delay_ns=10 * MS)
    queue = waiting(call(1, arrived_ns=5 * MS))
    assert turn(queue, prepare, now_ns=6 * MS) == []
    assert queue.seconds_to_wait(6 * MS) == pytest.approx(0.009)
    queue.add(call(2, arrived_ns=7 * MS))
    assert turn(queue, prepare, now_ns=7 * MS) == []
    assert turn(queue, prepare, now_ns=15 * MS) == [[1, 2]]


def test_a_full_batch_does_not_wait():
    prepare = Rows(delay_ns=10 * MS, most=2)
    assert turn(waiting(call(1), call(2), call(3)), prepare, now_ns=1) == [[1, 2]]


def test_a_waiting_group_delays_no_other():
    class Delayed(Rows):
        def __call__(self, call: IncomingCall) -> Prepared | None:
            self.delay_ns = 10 * MS if call.id < 100 else 0
            return super().__call__(call)

    assert turn(waiting(call(1), call(100)), Delayed(), now_ns=1) == [[100]]


def part(number: int, sequence_id: str, priority: int = 0) -> IncomingCall:
    made = call(number, priority)
    made.params = {"module": "net", "part": {"sequence_id": sequence_id}}
    return made


def test_parts_of_one_sequence_are_never_batched_together_and_keep_their_order():
    queue = waiting(part(1, "a"), part(2, "b"), part(3, "a", priority=-1), part(4, "a"), call(5))
    assert turn(queue, Rows()) == [[1, 2, 5]]
    assert queue.seconds_to_wait(0) == 0
    queue.add(part(6, "a"))
    assert turn(queue, Rows()) == [[3]]
    assert turn(queue, Rows()) == [[4]]
    assert turn(queue, Rows()) == [[6]]
    assert queue.seconds_to_wait(0) is None
    queue.add(part(7, "a"))
    assert turn(queue, Rows()) == [[7]]


def test_parts_that_were_put_off_keep_their_order():
    queue = waiting(part(3, "a"), part(1, "a"), part(2, "a"))
    assert [turn(queue, Rows()) for _ in range(3)] == [[[1]], [[2]], [[3]]]


def test_parts_in_different_groups_keep_their_order():
    queue = waiting(part(101, "a"), part(201, "a"), part(202, "b"), part(301, "a"))
    assert turn(queue, Rows()) == [[101], [202]]
    assert turn(queue, Rows()) == [[201]]
    assert turn(queue, Rows()) == [[301]]


def test_after_a_refused_or_dropped_part_the_next_one_runs():
    prepare = Rows()
    prepare.refused = {1, 2}
    queue = waiting(*(part(number, "a") for number in range(1, 7)))
    queue.begin_turn(0, prepare)
    assert [one.id for one in queue.drop(frozenset({3, 5}))] == [5, 3]
    assert queue.next_batch() is None
    assert turn(queue, prepare) == [[4]]
    assert turn(queue, prepare) == [[6]]
    assert queue.seconds_to_wait(0) is None
