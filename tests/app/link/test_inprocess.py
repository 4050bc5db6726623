from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from app.errors.tree import ExecutorGone, HostError
from app.executor.loop import DeviceLoop
from app.link.inprocess import InProcessClient
from app.link.protocols import Channel

sys.path.insert(0, str(Path(__file__).parent))
from echo_host import EchoHost


def make_loop(device: str, channel: Channel) -> DeviceLoop:
    return DeviceLoop(EchoHost(device, channel.emit, channel.wake), channel)


@pytest.fixture
async def executor() -> AsyncIterator[InProcessClient]:
    """A running executor in this process."""
    client = InProcessClient("cpu(0)", make_loop)
    await client.start()
    yield client
    await client.stop()


async def test_values_and_tensors_are_returned(executor):
    x = np.arange(6.0).reshape(2, 3)
    reply = await executor.call("echo", {"a": 1}, {"x": x})
    assert reply.result == {"params": {"a": 1}, "device": "cpu(0)"}
    np.testing.assert_array_equal(reply.tensors["x"], x)
    assert not np.shares_memory(reply.tensors["x"], x)
    reply.release()


async def test_a_request_is_copied_when_the_call_is_made(executor):
    x = np.ones(1000)
    call = asyncio.ensure_future(executor.call("sums", {}, {"x": x}))
    await asyncio.sleep(0)
    x[:] = 7
    assert (await call).result == {"x": 1000.0}


async def test_reserved_buffers_are_sent(executor):
    buffers = executor.reserve({"x": ((2, 2), np.float32)})
    buffers.tensors["x"][...] = 3
    assert (await executor.call("sums", {}, buffers)).result == {"x": 12.0}


async def test_errors_of_the_host_are_raised_unchanged(executor):
    with pytest.raises(HostError) as refusal:
        await executor.call("refuse")
    assert (refusal.value.code, refusal.value.field_name) == ("invalid", "field")


async def test_many_concurrent_calls(executor):
    async def one(number: int) -> None:
        reply = await executor.call("echo", {"n": number}, {"x": np.full(10, number)})
        assert reply.result["params"]["n"] == number
        assert (reply.tensors["x"] == number).all()

    await asyncio.gather(*(one(number) for number in range(1000)))


async def test_a_cancelled_call_is_dropped(executor):
    sleeping = asyncio.create_task(executor.call("sleep", {"seconds": 1.0}))
    waiting = asyncio.create_task(executor.call("echo", {"label": "dropped"}))
    await asyncio.sleep(0.02)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await sleeping
    assert "dropped" not in (await executor.call("order")).result["order"]


async def test_events_arrive(executor):
    await executor.call("job", {"batches": 3})
    stream = executor.events()
    async with asyncio.timeout(60):
        assert [(await anext(stream))["left"] for _ in range(3)] == [2, 1, 0]


async def test_stopping_finishes_the_running_call_and_fails_the_others(executor):
    running = asyncio.create_task(executor.call("sleep", {"seconds": 0.5}))
    waiting = asyncio.create_task(executor.call("sleep", {"seconds": 0.5}))
    await asyncio.sleep(0.02)
    await executor.stop()
    assert (await running).result == {}
    with pytest.raises(ExecutorGone):
        await waiting
    assert not executor.is_alive()
    with pytest.raises(ExecutorGone):
        await executor.call("echo")


async def test_a_host_that_cannot_be_created_fails_the_start():
    with pytest.raises(RuntimeError, match="no such device"):
        await InProcessClient("missing", make_loop).start()


async def test_it_can_be_started_again_after_a_stop(executor):
    await executor.stop()
    await executor.start()
    assert (await executor.call("sums")).result == {}
