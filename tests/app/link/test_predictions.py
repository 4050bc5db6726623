"""Predictions over the link: many per frame, one answer per batch, memory returned."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

import numpy as np
import pytest

from app.errors.tree import ExecutorGone, ExecutorKilled, HostError
from app.link.client import ExecutorClient, Outcome
from app.link.process import ProcessClient, ProcessOptions
from app.link.signatures import Numbers, Signature, Target
from app.link.slots import SLOT_BYTES


def target_of(array: np.ndarray, **params: Any) -> Target:
    specs = {"data": (array.shape, array.dtype)}
    return Target({"module": "echo", **params}, Signature.of(specs))


def submit(client: ExecutorClient, target: Target, array: np.ndarray, **options: Any):
    """Request a prediction; return it and a future of its outcome."""
    future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def on_outcome(outcome: Outcome | Exception) -> None:
        assert not future.done(), "a second outcome"
        if isinstance(outcome, Outcome):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)

    return client.submit(target, [array.tobytes()], on_outcome, **options), future


def values(outcome: Outcome) -> np.ndarray:
    """Return a copy of the only output and release its memory."""
    memory = np.frombuffer(outcome.memory, np.uint8)
    (array,) = outcome.outputs.arrays(memory, 0).values()
    copy = array.copy()
    del memory, array
    outcome.release()
    return copy


@pytest.fixture
async def executor(echo_options: ProcessOptions):
    client = ProcessClient("cpu(0)", echo_options)
    await client.start()
    yield client
    await client.stop()


async def until_running(executor: ProcessClient) -> None:
    """Wait until the executor is computing something."""
    async with asyncio.timeout(60):
        while not executor.running_works():
            await asyncio.sleep(0.005)


async def test_requests_of_one_loop_turn_are_computed_in_one_batch(executor):
    target = target_of(np.zeros((1, 3), "f"), most_rows=64)
    rows = [np.full((1, 3), number, "f") for number in range(20)]
    futures = [submit(executor, target, row)[1] for row in rows]
    outcomes = await asyncio.gather(*futures)
    assert [one.facts.rows for one in outcomes] == [20] * 20
    assert len({id(one.outputs) for one in outcomes}) == 1, "they share one description"
    for row, outcome in zip(rows, outcomes, strict=True):
        np.testing.assert_array_equal(values(outcome), row)


async def test_answers_of_different_shapes_reach_the_right_callers(executor):
    arrays = [np.arange(n, dtype="i8").reshape(1, n) for n in range(1, 60)]
    futures = [submit(executor, target_of(one, most_rows=64), one)[1] for one in arrays]
    for array, outcome in zip(arrays, await asyncio.gather(*futures), strict=True):
        np.testing.assert_array_equal(values(outcome), array)


async def test_large_tensors_go_through_slabs_unchanged(executor):
    for size in (SLOT_BYTES, SLOT_BYTES + 1, 3 * 2**20):
        array = np.arange(size, dtype=np.uint8).reshape(1, size)
        _, future = submit(executor, target_of(array), array)
        np.testing.assert_array_equal(values(await future), array)
    assert executor.connection.request_bytes == 0


async def test_slots_are_reused(executor):
    array = np.zeros((1, 3), "f")
    target = target_of(array, most_rows=64)
    for _ in range(30):
        futures = [submit(executor, target, array)[1] for _ in range(100)]
        for outcome in await asyncio.gather(*futures):
            outcome.release()
    assert executor.connection.calls_under_way == 0


async def test_requests_beyond_the_slots_are_refused_and_the_others_answered(executor):
    array = np.zeros((1, 3), "f")
    target = target_of(array, most_rows=64)
    futures = [submit(executor, target, array)[1] for _ in range(1024)]
    with pytest.raises(HostError, match="all slots"):
        submit(executor, target, array)
    for outcome in await asyncio.gather(*futures):
        outcome.release()
    _, future = submit(executor, target, array)
    (await future).release()


async def test_a_withdrawn_request_is_not_answered_and_frees_its_slot(executor):
    array = np.zeros((1, 3), "f")
    target = target_of(array)
    busy = asyncio.ensure_future(executor.call("sleep", {"seconds": 0.5}))
    await until_running(executor)
    asked, future = submit(executor, target, array)
    asked.withdraw()
    asked.withdraw()
    (await busy).release()
    (await executor.call("control", {})).release()
    assert executor.connection.calls_under_way == 0
    assert not future.done()


async def test_a_request_that_expires_in_the_queue_is_refused(executor):
    array = np.zeros((1, 3), "f")
    busy = asyncio.ensure_future(executor.call("sleep", {"seconds": 0.5}))
    await until_running(executor)
    deadline = time.monotonic() + 0.05
    _, late = submit(executor, target_of(array), array, deadline=deadline)
    _, patient = submit(executor, target_of(array), array, deadline=deadline + 60)
    with pytest.raises(HostError) as refusal:
        await late
    assert refusal.value.code == "timed_out"
    (await patient).release()
    (await busy).release()


async def test_a_failing_host_refuses_the_whole_batch(executor):
    array = np.zeros((1, 3), "f")
    target = target_of(array, most_rows=64, fails=True)
    futures = [submit(executor, target, array)[1] for _ in range(3)]
    for future in futures:
        with pytest.raises(HostError) as refusal:
            await future
        assert refusal.value.code == "internal"
    _, future = submit(executor, target_of(array), array)
    (await future).release()


async def test_a_death_fails_all_requests_and_is_blamed_on_the_running_batch(executor):
    array = np.zeros((1, 3), "f")
    _, running = submit(executor, target_of(array, seconds=30), array)
    other = Target({"module": "other"}, Signature.of({"data": (array.shape, array.dtype)}))
    await until_running(executor)
    _, waiting = submit(executor, other, array)
    os.kill(executor.pid, signal.SIGKILL)
    with pytest.raises(ExecutorKilled, match="predict of module 'echo'"):
        await running
    with pytest.raises(ExecutorGone) as gone:
        await waiting
    assert not isinstance(gone.value, ExecutorKilled)
    with pytest.raises(ExecutorGone):
        submit(executor, other, array)


@pytest.mark.parametrize("is_shared", [True, False])
async def test_a_death_that_sending_reveals_is_reported_after_the_submission(executor, is_shared):
    os.kill(executor.pid, signal.SIGKILL)
    os.waitid(os.P_PID, executor.pid, os.WEXITED | os.WNOWAIT)  # the event loop does not see it yet
    array = np.zeros((1, 3), "f")
    signature = Signature.of({"data": (array.shape, array.dtype)})
    target = Target({"module": "echo"}, signature, is_shared=is_shared)
    _, future = submit(executor, target, array)
    assert not future.done()
    with pytest.raises(ExecutorGone):
        await future


def test_numbers_of_unused_targets_are_dropped():
    numbers: Numbers[str] = Numbers(most=2)
    assert numbers.add("a") == (1, None)
    assert numbers.add("b") == (2, None)
    assert numbers.find("a") == 1
    assert numbers.add("c") == (3, 2)
    assert numbers.find("b") is None


async def test_dropped_targets_are_announced_again(executor):
    connection = executor.connection
    connection._targets = Numbers(most=2)
    arrays = [np.full((1, n), n, "f") for n in (1, 2, 3)]
    targets = [target_of(one) for one in arrays]
    for _ in range(3):
        for target, array in zip(targets, arrays, strict=True):
            _, future = submit(executor, target, array)
            np.testing.assert_array_equal(values(await future), array)
