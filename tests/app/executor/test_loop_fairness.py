"""Calls answered in pieces, and the order in which callers are served."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from app.errors.tree import HostError
from app.executor.loop import DeviceLoop
from app.link.client import Buffers
from app.link.protocols import ChannelClosed, Computation, IncomingCall, Prepared, Priority
from served.single_predictions import SinglePredictions

KINDS = {"c": Priority.CONTROL, "p": Priority.PREDICT, "s": Priority.STEP, "l": Priority.PREDICT}

Delivery = list[IncomingCall | int]


class Memory(Buffers):
    """Tensors of an answer that record their release."""

    released = False

    def release(self) -> None:
        self.released = True


class ScriptedChannel:
    """Delivers a list of calls per receive; closes after the last delivery has been handled."""

    largest_answer_bytes = 1 << 20

    def __init__(self, deliveries: Iterator[Delivery]) -> None:
        self.deliveries = deliveries
        self.answers: dict[int, Any] = {}
        self.tensors: dict[int, Any] = {}
        self.reserved: list[Memory] = []

    def receive(self, timeout_seconds: float | None) -> tuple[list[IncomingCall], list[int]]:
        delivery = next(self.deliveries, None)
        if delivery is None:
            if timeout_seconds is None:
                raise ChannelClosed
            return [], []
        return (
            [item for item in delivery if isinstance(item, IncomingCall)],
            [item for item in delivery if isinstance(item, int)],
        )

    def reserve(self, specs: Any) -> Memory:
        self.reserved.append(Memory({name: np.zeros(*spec) for name, spec in specs.items()}))
        return self.reserved[-1]

    def reply(self, call: IncomingCall, result: Mapping[str, Any], tensors: Any) -> None:
        self.answers[call.id] = dict(result)
        self.tensors[call.id] = tensors

    def refuse(self, call: IncomingCall, error: HostError) -> None:
        self.answers[call.id] = error.code

    is_full = False

    def emit(self, event: dict[str, Any]) -> None:
        pass

    def wake(self) -> None:
        pass


class PieceHost(SinglePredictions):
    """Answers ``l``... in ``params["pieces"]`` pieces, everything else at once."""

    def __init__(self, batches: int = 0) -> None:
        self.order: list[str] = []
        self.batches = batches
        self.failing: str | None = None
        self.closed: list[str] = []
        self.awaited: Future[None] | None = None
        self.answer_bytes = 0

    def prepare(self, call: IncomingCall) -> Prepared:
        return dataclasses.replace(super().prepare(call), answer_bytes=self.answer_bytes)

    def priority(self, method: str) -> Priority:
        return KINDS[method[0]]

    def handle(self, method: str, params: dict[str, Any], tensors: Any) -> Any:
        if method[0] != "l":
            self.order.append(method)
            return {"did": method}, {}
        pieces, shape = params["pieces"], params.get("shape", (params["pieces"],))

        def run(outputs: Any) -> Generator[Future[None] | None, None, Any]:
            try:
                for piece in range(pieces):
                    if piece:
                        yield self.awaited
                    if self.failing == method:
                        raise HostError("invalid", "no")
                    self.order.append(method)
                    outputs["out"][piece] = piece
                return {"did": method}
            finally:
                self.closed.append(method)

        return Computation({"out": (shape, np.dtype(np.float32))}, run)

    def has_work(self) -> bool:
        return self.batches > 0

    def advance(self) -> None:
        self.batches -= 1
        self.order.append("batch")

    def close(self) -> None:
        self.order.append("closed")


def call(number: int, method: str, **params: Any) -> IncomingCall:
    return IncomingCall(number, method, params)


def served(*deliveries: Delivery, batches: int = 0) -> tuple[PieceHost, ScriptedChannel]:
    host, channel = PieceHost(batches), ScriptedChannel(iter(deliveries))
    DeviceLoop(host, channel).run()
    return host, channel


def test_pieces_of_large_calls_alternate_with_batches():
    host, channel = served([call(1, "l1", pieces=3), call(2, "l2", pieces=2)], batches=4)
    assert host.order == [
        "l1",
        "batch",
        "l2",
        "batch",
        "l1",
        "batch",
        "l2",
        "batch",
        "l1",
        "closed",
    ]
    assert channel.answers == {1: {"did": "l1"}, 2: {"did": "l2"}}
    assert channel.tensors[1].tensors["out"].tolist() == [0, 1, 2]
    assert not any(memory.released for memory in channel.reserved)


def test_small_calls_run_between_any_two_pieces():
    host, _ = served(
        [call(1, "l1", pieces=4)], [call(2, "p1")], [call(3, "s1")], [call(4, "c1")], batches=1
    )
    assert host.order == ["l1", "p1", "batch", "s1", "l1", "c1", "l1", "l1", "closed"]


def test_an_abandoned_large_call_stops_between_pieces():
    host, channel = served([call(1, "l1", pieces=9), call(2, "l2", pieces=2)], [], [], [1])
    assert host.order.count("l1") < 3
    assert "l1" in host.closed
    assert host.order.count("l2") == 2
    assert channel.answers == {1: "cancelled", 2: {"did": "l2"}}
    assert [memory.released for memory in channel.reserved] == [True, False]


def test_a_large_call_that_fails_halfway_is_refused_and_releases_its_memory():
    host, channel = PieceHost(), ScriptedChannel(iter([[call(1, "l1", pieces=3)]]))
    host.failing = "l1"
    DeviceLoop(host, channel).run()
    assert channel.answers == {1: "invalid"}
    assert channel.reserved[0].released


def test_an_answer_too_large_is_refused_before_computing():
    shape = (ScriptedChannel.largest_answer_bytes // 4 + 1,)
    host, channel = served([call(1, "l1", pieces=3, shape=shape), call(2, "p1")])
    assert host.order == ["p1", "closed"]
    assert channel.answers[1] == "too_large"
    assert channel.reserved == []


def test_a_prediction_in_one_piece_with_too_large_an_answer_is_refused_before_computing():
    host = PieceHost()
    host.answer_bytes = ScriptedChannel.largest_answer_bytes + 1
    channel = ScriptedChannel(iter([[call(1, "predict")]]))
    DeviceLoop(host, channel).run()
    assert host.order == ["closed"]
    assert channel.answers == {1: "too_large"}


def test_memory_of_unfinished_calls_is_released_at_the_end():
    def deliveries() -> Iterator[Delivery]:
        yield [call(1, "l1", pieces=100)]
        yield []
        raise ChannelClosed

    host, channel = PieceHost(), ScriptedChannel(deliveries())
    DeviceLoop(host, channel).run()
    assert channel.reserved[0].released
    assert host.closed == ["l1"]


def test_a_call_waiting_for_a_file_delays_no_one():
    file: Future[None] = Future()

    def deliveries() -> Iterator[Delivery]:
        yield [call(1, "l1", pieces=2)]
        yield []
        yield [call(2, "l2", pieces=1)]
        yield []
        yield [call(3, "p1")]
        yield []
        assert sorted(host.order) == ["batch", "l1", "l2", "p1"]
        file.set_result(None)
        yield []

    host = PieceHost(batches=1)
    host.awaited = file
    channel = ScriptedChannel(deliveries())
    DeviceLoop(host, channel).run()
    assert sorted(channel.answers) == [1, 2, 3]


def test_a_stream_of_control_calls_delays_no_one():
    def deliveries() -> Iterator[Delivery]:
        yield [call(0, "p1"), call(1, "p2"), call(2, "s1"), call(3, "l1", pieces=2)]
        for number in range(4, 40):
            yield [call(number, f"c{number}")]

    host, channel = PieceHost(batches=1), ScriptedChannel(deliveries())
    DeviceLoop(host, channel).run()
    assert len(channel.answers) == 40
    others = [name for name in host.order if not name[1:].isdecimal() or name[0] != "c"]
    assert others == ["p1", "p2", "s1", "l1", "batch", "l1", "closed"]
    assert host.order.index("l1") < 12


@pytest.mark.parametrize("clients", [1, 3])
def test_no_class_of_calls_starves_under_full_load(clients: int):
    """Each client calls again as soon as it is answered, and gets its share."""
    numbers = itertools.count()
    waiting: dict[int, str] = {}
    looks = 400

    def submit(kind: str) -> IncomingCall:
        number = next(numbers)
        waiting[number] = kind
        return call(number, f"{kind}{number}", pieces=5)

    def deliveries() -> Iterator[Delivery]:
        yield [submit(kind) for kind in "cpsl" for _ in range(clients)]
        for _ in range(looks):
            answered = [number for number in waiting if number in channel.answers]
            yield [submit(waiting.pop(number)) for number in answered]

    host, channel = PieceHost(batches=10_000), ScriptedChannel(deliveries())
    host.has_work = lambda: host.batches > 0 and len(host.order) < 300  # type: ignore[method-assign]
    DeviceLoop(host, channel).run()
    done = Counter(name[0] for name in host.order[:300])
    assert done["b"] >= 300 // (25 * clients)
    assert done["l"] >= 300 // (25 * clients)
    for kind in "cps":
        assert done[kind] >= done["b"]
