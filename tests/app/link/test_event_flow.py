"""Events in flight are limited in both kinds of executors, and no essential one is lost."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.executor.loop import DeviceLoop
from app.link.event_flow import EventFlow, EventQueue
from app.link.inprocess import InProcessClient
from app.link.process import ProcessClient, ProcessOptions
from app.link.protocols import Channel

sys.path.insert(0, str(Path(__file__).parent))
from echo_host import EchoHost

MOST = 256
BATCHES = 1000


def event(kind: str, number: int, job_id: int = 1) -> dict[str, Any]:
    return {"type": kind, "job_id": job_id, "attempt": 1, "number": number}


def test_only_progress_and_statistics_are_thinned_out() -> None:
    sent: list[dict[str, Any]] = []
    flow = EventFlow(sent.append)
    for number in range(100):
        flow.emit(event("metric", number))
    for number in range(50):
        flow.emit(event("progress", number))
        flow.emit(event("statistics", number))
        flow.emit(event("statistics", number, job_id=2))
    assert len(sent) == 100
    flow.emit(event("checkpoint", 0))
    told = sent[100:]
    assert [one["type"] for one in told] == ["progress", "log", "checkpoint"]
    assert told[0]["number"] == 49, "the newest progress"
    assert told[1]["message"].startswith("50 reports of statistics were dropped")
    flow.taken(len(sent))
    flow.emit(event("statistics", 50, job_id=2))
    assert [one["type"] for one in sent[103:]] == ["log", "statistics"]
    assert sent[103]["job_id"] == 2


def test_jobs_wait_while_too_many_events_are_in_flight() -> None:
    flow = EventFlow(lambda event: None)
    for number in range(MOST):
        assert not flow.is_full
        flow.emit(event("metric", number))
    assert flow.is_full
    flow.taken(1)
    assert not flow.is_full


async def test_each_process_counts_its_own_events() -> None:
    queue, told = EventQueue(), {"old": 0, "new": 0}

    def of(name: str) -> Any:
        return lambda count: told.update({name: told[name] + count})

    for name in ("old", "old", "new"):
        queue.put({"of": name}, of(name))
    stream = queue.events()
    assert [(await anext(stream))["of"] for _ in range(3)] == ["old", "old", "new"]
    queue.taken(1)
    assert told == {"old": 1, "new": 0}
    queue.taken(9)
    assert told == {"old": 2, "new": 1}


def make_loop(device: str, channel: Channel) -> DeviceLoop:
    return DeviceLoop(EchoHost(device, channel.emit, channel.wake), channel)


@pytest.fixture(params=["process", "in_process"])
async def flooded(
    request: pytest.FixtureRequest, echo_options: ProcessOptions
) -> AsyncIterator[ProcessClient | InProcessClient]:
    """A running executor."""
    is_process = request.param == "process"
    client = (
        ProcessClient("cpu(0)", echo_options)
        if is_process
        else InProcessClient("cpu(0)", make_loop)
    )
    await client.start()
    yield client
    await client.stop()


async def batches_done(client: ProcessClient | InProcessClient) -> int:
    reply = await client.call("order")
    reply.release()
    return int(reply.result["order"].count("batch"))


async def test_a_job_waits_for_the_store_but_calls_do_not(
    flooded: ProcessClient | InProcessClient,
) -> None:
    (await flooded.call("job", {"batches": BATCHES})).release()
    async with asyncio.timeout(60):
        while await batches_done(flooded) < MOST:
            await asyncio.sleep(0.01)
        for _ in range(20):  # answered while the job waits and makes no progress
            assert await batches_done(flooded) == MOST
        left = []
        async for one in flooded.events():
            left.append(one["left"])
            flooded.events_taken(1)
            if not left[-1]:
                break
    assert left == list(range(BATCHES))[::-1], "all events, in order"
