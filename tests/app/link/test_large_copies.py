"""Large tensors are copied for an executor without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest

from app.errors.tree import ExecutorGone
from app.link.client import Outcome
from app.link.process import ProcessClient, ProcessOptions
from app.link.signatures import Signature, Target
from served.ticking import Gaps, tick

LARGE = np.arange(60_000_000, dtype=np.uint8)
BODY = LARGE.tobytes()
LONGEST_SECONDS = 0.02
TRIES = 4


def submit(client: ProcessClient, body: bytes):
    """Request a prediction; return it and a future of its outcome."""
    future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def on_outcome(outcome: Outcome | Exception) -> None:
        if isinstance(outcome, Outcome):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)

    target = Target({"module": "echo"}, Signature.of({"data": ((1, len(body)), "u1")}))
    return client.submit(target, [body], on_outcome), future


async def predict(client: ProcessClient) -> None:
    _, future = submit(client, BODY)
    (await future).release()


async def call(client: ProcessClient) -> None:
    (await client.call("echo", {}, {"data": LARGE})).release()


@pytest.mark.serial
@pytest.mark.parametrize("ask", [predict, call])
async def test_new_memory_is_filled_off_the_event_loop(
    echo_options: ProcessOptions, tmp_path: Path, ask: Callable[[ProcessClient], Awaitable[None]]
) -> None:
    """Each try has a new executor: memory that was never used before takes longest to fill."""
    found = []
    for _ in range(TRIES):
        client = ProcessClient("cpu(0)", echo_options)
        await client.start()
        gaps = Gaps(tmp_path / "gaps")
        ticking = asyncio.create_task(tick(tmp_path / "gaps"))
        await asyncio.sleep(0.01)
        await ask(client)
        await asyncio.sleep(0.01)
        ticking.cancel()
        found.append(gaps.longest().computing)
        await client.stop()
    assert min(found) < LONGEST_SECONDS, found


async def test_tensors_copied_off_the_loop_are_complete(echo_options: ProcessOptions) -> None:
    client = ProcessClient("cpu(0)", echo_options)
    await client.start()
    _, future = submit(client, BODY)
    outcome = await future
    assert outcome.memory[: len(BODY)] == BODY
    outcome.release()
    reply = await client.call("echo", {}, {"data": LARGE})
    assert reply.tensors["data"].tobytes() == BODY
    reply.release()
    await client.stop()


async def test_a_request_withdrawn_while_copying_is_never_sent(
    echo_options: ProcessOptions,
) -> None:
    client = ProcessClient("cpu(0)", echo_options)
    await client.start()
    asked, future = submit(client, BODY)
    asked.withdraw()
    giving_up = asyncio.create_task(client.call("echo", {"label": "given up"}, {"data": LARGE}))
    await asyncio.sleep(0)
    giving_up.cancel()
    await asyncio.wait([giving_up])
    while client.connection.request_bytes:
        await asyncio.sleep(0.01)
    assert client.connection.calls_under_way == 0
    assert "given up" not in (await client.call("order", {})).result["order"]
    assert not future.done()
    await client.stop()


async def test_an_executor_ending_while_copying_is_reported(echo_options: ProcessOptions) -> None:
    client = ProcessClient("cpu(0)", echo_options)
    await client.start()
    _, future = submit(client, BODY)
    calling = asyncio.create_task(client.call("echo", {}, {"data": LARGE}))
    await asyncio.sleep(0)
    client.connection.close("it ended")
    for one in (future, calling):
        with pytest.raises(ExecutorGone):
            await one
    await client.stop()
