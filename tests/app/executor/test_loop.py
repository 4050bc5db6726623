from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from app.errors.tree import HostError
from app.executor.loop import Activity, DeviceLoop
from app.link.client import Buffers
from app.link.protocols import ChannelClosed, Computation, IncomingCall, Priority
from served.single_predictions import SinglePredictions

KINDS = {"c": Priority.CONTROL, "p": Priority.PREDICT, "s": Priority.STEP}


class ScriptedChannel:
    """Delivers lists of calls, one per receive; closes when waited on with nothing left."""

    largest_answer_bytes = 1 << 20

    def __init__(self, *deliveries: list[IncomingCall | int]) -> None:
        self.deliveries = list(deliveries)
        self.waits: list[float | None] = []
        self.answers: dict[int, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.when_empty: Callable[[], None] | None = None

    def receive(self, timeout_seconds: float | None) -> tuple[list[IncomingCall], list[int]]:
        self.waits.append(timeout_seconds)
        if not self.deliveries:
            if timeout_seconds is None and self.when_empty is not None:
                self.when_empty, do = None, self.when_empty
                do()
            elif timeout_seconds is None:
                raise ChannelClosed
            return [], []
        delivery = self.deliveries.pop(0)
        return (
            [item for item in delivery if isinstance(item, IncomingCall)],
            [item for item in delivery if isinstance(item, int)],
        )

    def reserve(self, specs: Any) -> Buffers:
        return Buffers({name: np.empty(*spec) for name, spec in specs.items()})

    def reply(self, call: IncomingCall, result: Mapping[str, Any], tensors: Any) -> None:
        self.answers[call.id] = dict(result)

    def wake(self) -> None:
        pass

    def refuse(self, call: IncomingCall, error: HostError) -> None:
        self.answers[call.id] = error.code

    is_full = False

    def emit(self, event: dict[str, Any]) -> None:
        self.events.append(event)


class RecordingHost(SinglePredictions):
    """Records the order of its calls; methods are named by kind and number."""

    def __init__(self, batches: int = 0, failure: Callable[[], None] | None = None) -> None:
        self.order: list[str] = []
        self.batches = batches
        self.failure = failure

    def priority(self, method: str) -> Priority:
        if method[0] not in KINDS:
            raise HostError("not_found", method)
        return KINDS[method[0]]

    def handle(self, method: str, params: dict[str, Any], tensors: Any) -> Any:
        self.order.append(method)
        if self.failure is not None:
            self.failure()
        return {"did": method}, {}

    def has_work(self) -> bool:
        return self.batches > 0

    def advance(self) -> None:
        self.batches -= 1
        self.order.append("batch")

    def close(self) -> None:
        self.order.append("closed")


def incoming(number: int, method: str) -> IncomingCall:
    return IncomingCall(number, method, {})


def served(channel: ScriptedChannel, batches: int = 0) -> list[str]:
    host = RecordingHost(batches)
    DeviceLoop(host, channel).run()
    return host.order


def test_control_goes_before_predictions_and_those_before_steps():
    channel = ScriptedChannel(
        [incoming(n, m) for n, m in enumerate(["s1", "p1", "s2", "c1", "p2"])]
    )
    assert served(channel) == ["c1", "p1", "p2", "s1", "s2", "closed"]


def test_calls_of_one_kind_keep_their_order():
    channel = ScriptedChannel([incoming(n, f"s{n}") for n in range(9)])
    assert served(channel)[:-1] == [f"s{n}" for n in range(9)]


def test_waiting_calls_are_answered_between_two_batches():
    channel = ScriptedChannel([], [incoming(1, "p1")])
    assert served(channel, batches=3) == ["batch", "p1", "batch", "batch", "closed"]


def test_a_stream_of_predictions_starves_neither_jobs_nor_steps():
    channel = ScriptedChannel(
        [incoming(1, "p1"), incoming(2, "s1")],
        [incoming(3, "p2")],
        [incoming(4, "p3"), incoming(5, "c1")],
    )
    assert served(channel, batches=2) == ["p1", "s1", "batch", "c1", "p2", "p3", "batch", "closed"]


def large(number: int, method: str) -> IncomingCall:
    return IncomingCall(number, method, {}, {"data": np.zeros(2 << 20, np.uint8)})


class Loading(RecordingHost):
    """Methods ending in ``-load`` have their module to themselves until a future is done."""

    def __init__(self) -> None:
        super().__init__()
        self.future: Future[None] = Future()

    def handle(self, method: str, params: dict[str, Any], tensors: Any) -> Any:
        if not method.endswith("-load"):
            return super().handle(method, params, tensors)

        def run(outputs: Any) -> Any:
            self.order.append(method)
            yield self.future
            self.order.append(f"{method} done")
            return {}

        return Computation({}, run, is_exclusive=True)


def of(module: str, call: IncomingCall) -> IncomingCall:
    return dataclasses.replace(call, params={"module": module})


def test_exclusive_calls_block_only_their_module_and_keep_the_order():
    channel = ScriptedChannel(
        [of("a", incoming(1, "s1-load"))],
        [],
        [of("a", large(2, "p2")), of("a", incoming(3, "c3")), of("b", incoming(4, "s4"))],
        [of("a", incoming(5, "s5-load")), of("a", incoming(6, "s6")), of("a", incoming(7, "p7"))],
        [7],
        [],
    )
    host = Loading()
    channel.when_empty = lambda: host.future.set_result(None)
    DeviceLoop(host, channel).run()
    assert host.order[:3] == ["s1-load", "s4", "s1-load done"]
    assert host.order[3] == "c3"
    assert [one for one in host.order if one[0] == "s"][3:] == ["s5-load", "s5-load done", "s6"]
    assert "p2" in host.order
    assert channel.answers[7] == "cancelled"


def test_control_that_arrives_during_a_turn_is_answered_within_it():
    channel = ScriptedChannel(
        [incoming(1, "p1"), incoming(2, "p2"), incoming(3, "p3")], [incoming(4, "c1")], []
    )
    assert served(channel) == ["p1", "c1", "p2", "p3", "closed"]


def test_it_blocks_indefinitely_only_when_idle():
    channel = ScriptedChannel()
    served(channel, batches=2)
    assert channel.waits == [0.0, 0.0, None]


def test_an_abandoned_call_is_not_made():
    channel = ScriptedChannel([incoming(1, "p1"), incoming(2, "p2"), incoming(3, "p3")], [3], [])
    assert served(channel) == ["p1", "p2", "closed"]
    assert channel.answers == {1: {"did": "p1"}, 2: {"did": "p2"}, 3: "cancelled"}


def test_an_unknown_method_is_refused_and_the_others_answered():
    channel = ScriptedChannel([incoming(1, "x"), incoming(2, "p1")])
    served(channel)
    assert channel.answers == {1: "not_found", 2: {"did": "p1"}}


def raise_host_error() -> None:
    raise HostError("invalid", "wrong", "field")


def raise_bug() -> None:
    raise ZeroDivisionError


def run_out_of_memory() -> None:
    np.empty(1 << 47)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (raise_host_error, "invalid"),
        (raise_bug, "internal"),
        (run_out_of_memory, "out_of_memory"),
    ],
)
def test_a_failing_call_is_refused_and_the_loop_continues(failure: Any, code: str):
    channel = ScriptedChannel([incoming(1, "p1"), incoming(2, "p2")])
    DeviceLoop(RecordingHost(failure=failure), channel).run()
    assert channel.answers == {1: code, 2: code}


def test_the_host_is_closed_when_a_batch_raises():
    class Broken(RecordingHost):
        def advance(self) -> None:
            raise RuntimeError("the device is gone")

    host = Broken(batches=1)
    with pytest.raises(RuntimeError, match="device is gone"):
        DeviceLoop(host, ScriptedChannel([])).run()
    assert host.order == ["closed"]


def test_activity_names_what_is_running():
    activity = Activity()
    assert activity.report() == {"doing": None, "busy_seconds": 0.0}
    activity.begin("predict")
    report = activity.report()
    assert report["doing"] == "predict"
    assert report["busy_seconds"] >= 0
    activity.end()
    assert activity.report()["doing"] is None
