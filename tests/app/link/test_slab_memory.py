"""An executor process's shared memory shrinks back to its idle size."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from app.link.process import ProcessClient, ProcessOptions
from app.link.slab_port import SlabLimits

MIB = 2**20
IDLE = 2 * MIB
UNSENT = 4 * MIB
"""Bytes of the other side's slabs that a side may keep until the next frame says it is done."""


@pytest.fixture
async def executor(echo_options: ProcessOptions) -> AsyncIterator[ProcessClient]:
    limits = SlabLimits(limit_bytes=256 * MIB, idle_bytes=IDLE)
    client = ProcessClient("cpu(0)", dataclasses.replace(echo_options, limits=limits))
    await client.start()
    yield client
    await client.stop()


def slab_bytes(pid: int) -> int:
    """Return the bytes of slabs a process maps, its own and its peer's."""
    total = 0
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if "memfd:modserve (" in line:
            start, _, stop = line.split(" ")[0].partition("-")
            total += int(stop, 16) - int(start, 16)
    return total


async def shrunk(client: ProcessClient) -> None:
    """Make small calls until both processes map no more slabs than they may keep."""
    assert client.pid is not None
    async with asyncio.timeout(30):
        for pid in (os.getpid(), client.pid):
            while slab_bytes(pid) > 2 * (IDLE + UNSENT):
                (await client.call("control", {})).release()


async def test_many_large_calls_and_answers_shrink_to_the_idle_size(
    executor: ProcessClient,
) -> None:
    data = np.zeros(4 * MIB, np.uint8)
    calls = [executor.call("echo", {}, {"data": data}) for _ in range(16)]
    replies = await asyncio.gather(*calls)
    assert slab_bytes(os.getpid()) >= 16 * 4 * MIB
    for reply in replies:
        reply.release()
    await shrunk(executor)


async def test_calls_abandoned_while_waiting_free_their_memory(executor: ProcessClient) -> None:
    data = np.zeros(4 * MIB, np.uint8)
    busy = asyncio.create_task(executor.call("sleep", {"seconds": 3.0}))
    await asyncio.sleep(0)
    calls = [
        asyncio.create_task(executor.call("echo", {"label": "given up"}, {"data": data}))
        for _ in range(16)
    ]
    await asyncio.sleep(0)
    assert slab_bytes(os.getpid()) >= 16 * 4 * MIB
    for call in calls:
        call.cancel()
    await asyncio.wait(calls)
    (await busy).release()
    await shrunk(executor)
    assert executor.connection.request_bytes == 0
    order = (await executor.call("order", {})).result["order"]
    assert "given up" not in order
