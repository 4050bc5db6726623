"""Supervised executors: real processes that die, hang and are restarted."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import os
import signal
from collections.abc import AsyncIterator

import numpy as np
import pytest

from app.errors.tree import ExecutorGone, ExecutorKilled
from app.link.client import ExecutorClient
from app.link.process import ProcessClient
from app.link.supervisor import ExecutorState, RestartPolicy, Supervisor

QUICK = RestartPolicy(first_delay_seconds=0.05, longest_delay_seconds=0.2)
PATIENCE_SECONDS = 60
"""A process takes a second to start, and many times that on a busy machine."""


@pytest.fixture
async def supervisor(echo_options) -> AsyncIterator[Supervisor]:
    """A supervised executor that restores nothing."""
    supervised = Supervisor("cpu(0)", echo_options, policy=QUICK)
    await supervised.start()
    yield supervised
    await supervised.stop()


async def wait_for_state(supervised: Supervisor, state: ExecutorState) -> None:
    """Wait until the executor is in a state; fail the test when it takes too long."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while supervised.state is not state:
            await asyncio.sleep(0.01)


async def wait_for_restarts(supervised: Supervisor, count: int) -> None:
    """Wait until the executor has restarted ``count`` times or more."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while supervised.status().restarts < count or not supervised.is_alive():
            await asyncio.sleep(0.01)


async def test_it_answers_like_an_unsupervised_executor(supervisor):
    reply = await supervisor.call("echo", {"a": 1}, {"x": np.arange(3)})
    assert reply.result["params"] == {"a": 1}
    assert reply.tensors["x"].tolist() == [0, 1, 2]
    reply.release()
    assert supervisor.is_alive()


async def test_an_executor_that_cannot_be_watched_is_started_again(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    pidfd_open, failures = os.pidfd_open, iter([True])

    def fail_once(pid: int) -> int:
        if next(failures, False):
            raise OSError(errno.EMFILE, "too many open files")
        return pidfd_open(pid)

    monkeypatch.setattr("app.link.process.os.pidfd_open", fail_once)
    os.kill(supervisor.status().pid, signal.SIGKILL)
    await wait_for_restarts(supervisor, 2)
    assert next(failures, None) is None


async def test_a_killed_executor_is_restarted_as_a_new_process(supervisor):
    first = supervisor.status().pid
    call = asyncio.create_task(supervisor.call("sleep", {"seconds": 30}))
    await asyncio.sleep(0.05)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(ExecutorGone):
        await call
    assert not supervisor.is_alive()
    with pytest.raises(ExecutorGone, match=r"waiting|starting"):
        await supervisor.call("echo")
    await wait_for_state(supervisor, ExecutorState.READY)
    assert (await supervisor.call("echo")).result["device"] == "cpu(0)"
    status = supervisor.status()
    assert status.pid != first
    assert status.restarts == 1
    assert "status -9" in status.last_end


@pytest.mark.parametrize(
    ("method", "params", "end"),
    [
        ("exit", {"status": 3}, "status 3"),
        ("die", {"signal": int(signal.SIGSEGV)}, "status -11"),
    ],
)
async def test_every_kind_of_death_is_noticed(supervisor, method, params, end):
    with pytest.raises(ExecutorGone):
        await supervisor.call(method, params)
    await wait_for_restarts(supervisor, 1)
    assert end in supervisor.status().last_end


async def test_calls_do_not_wait_for_a_restore(echo_options):
    gate = asyncio.Event()
    seen: list[int] = []

    async def restore(client: ExecutorClient) -> None:
        reply = await client.call("sums", {}, {"x": np.ones(4)})
        seen.append(reply.result["x"])
        if len(seen) > 1:
            await gate.wait()

    supervised = Supervisor("cpu(0)", echo_options, restore, QUICK)
    await supervised.start()
    assert seen == [4.0]
    os.kill(supervised.status().pid, signal.SIGKILL)
    await wait_for_state(supervised, ExecutorState.RESTORING)
    assert not supervised.is_alive()
    with pytest.raises(ExecutorGone, match="restoring"):
        await supervised.call("echo")
    gate.set()
    await wait_for_state(supervised, ExecutorState.READY)
    assert seen == [4.0, 4.0]
    await supervised.stop()


async def test_a_failing_restore_is_retried(echo_options):
    attempts: list[int] = []

    async def restore(client: ExecutorClient) -> None:
        attempts.append(client.pid)
        if len(attempts) in (2, 3):
            raise OSError("the store is away")

    supervised = Supervisor("cpu(0)", echo_options, restore, QUICK)
    await supervised.start()
    os.kill(attempts[0], signal.SIGKILL)
    await wait_for_restarts(supervised, 3)
    assert len(attempts) == 4
    assert supervised.status().restarts == 3
    await supervised.stop()


async def test_a_failing_first_start_is_reported_and_leaves_no_process(echo_options):
    async def restore(client: ExecutorClient) -> None:
        raise OSError("the store is away")

    supervised = Supervisor("cpu(0)", echo_options, restore, QUICK)
    with pytest.raises(OSError, match="store is away"):
        await supervised.start()
    assert supervised.state is ExecutorState.STOPPED
    assert supervised.status().pid is None
    with pytest.raises(ExecutorGone):
        await Supervisor("missing", echo_options, policy=QUICK).start()


async def test_a_silent_process_is_killed(echo_options):
    policy = dataclasses.replace(QUICK, silence_seconds=3.0)
    supervised = Supervisor("cpu(0)", echo_options, policy=policy)
    await supervised.start()
    call = asyncio.create_task(supervised.call("echo"))
    await call
    os.kill(supervised.status().pid, signal.SIGSTOP)
    with pytest.raises(ExecutorGone, match="no heartbeat"):
        await asyncio.wait_for(supervised.call("echo"), PATIENCE_SECONDS)
    await wait_for_restarts(supervised, 1)
    assert "no heartbeat" in supervised.status().last_end
    await supervised.stop()


async def test_a_call_that_never_returns_is_killed(echo_options):
    policy = dataclasses.replace(QUICK, stall_seconds=0.5, silence_seconds=60.0)
    supervised = Supervisor("cpu(0)", echo_options, policy=policy)
    await supervised.start()
    with pytest.raises(ExecutorGone, match="busy with one sleep"):
        await asyncio.wait_for(supervised.call("sleep", {"seconds": 600}), PATIENCE_SECONDS)
    await wait_for_restarts(supervised, 1)
    await supervised.stop()


async def test_a_long_batch_does_not_count_as_silence(echo_options):
    policy = dataclasses.replace(QUICK, silence_seconds=3.0)
    supervised = Supervisor("cpu(0)", echo_options, policy=policy)
    await supervised.start()
    await supervised.call("sleep", {"seconds": 3.5})
    assert supervised.status().restarts == 0
    await supervised.stop()


async def test_heartbeats_name_what_is_running(supervisor):
    call = asyncio.create_task(supervisor.call("sleep", {"seconds": 60}))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (status := supervisor.status()).busy_seconds:
            await asyncio.sleep(0.01)
    assert status.doing == "sleep"
    assert 0 < status.busy_seconds < 60
    assert status.rss_bytes > 2**20
    assert status.calls_under_way == 1
    os.kill(status.pid, signal.SIGKILL)
    with pytest.raises(ExecutorKilled):
        await call


async def test_events_continue_after_a_restart(supervisor):
    await supervisor.call("job", {"batches": 2})
    async with asyncio.timeout(PATIENCE_SECONDS):
        stream = supervisor.events()
        assert (await anext(stream))["left"] == 1
        assert (await anext(stream))["left"] == 0
        os.kill(supervisor.status().pid, signal.SIGKILL)
        await wait_for_restarts(supervisor, 1)
        await supervisor.call("job", {"batches": 1})
        assert (await anext(stream))["left"] == 0


@pytest.fixture
def starts(monkeypatch):
    """The times at which a process was started."""
    found: list[float] = []
    bring_up = Supervisor._bring_up

    async def noted(supervised: Supervisor) -> ProcessClient:
        found.append(asyncio.get_running_loop().time())
        return await bring_up(supervised)

    monkeypatch.setattr(Supervisor, "_bring_up", noted)
    return found


async def test_the_delay_between_restarts_grows(echo_options, starts):
    policy = RestartPolicy(first_delay_seconds=0.5, longest_delay_seconds=1.0)
    supervised = Supervisor("cpu(0)", echo_options, policy=policy)
    await supervised.start()
    supervised._options = dataclasses.replace(echo_options, program=("ends_at_once",))
    os.kill(supervised.status().pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(starts) < 4:
            await asyncio.sleep(0.01)
    assert starts[1] - starts[0] >= 0.5
    assert starts[2] - starts[1] >= 0.99
    assert starts[3] - starts[2] >= 0.99
    await supervised.stop()


async def test_an_executor_that_ran_long_enough_is_restarted_at_once(echo_options, starts):
    loop = asyncio.get_running_loop()
    delay = 3.0
    policy = RestartPolicy(first_delay_seconds=delay, longest_delay_seconds=delay)
    supervised = Supervisor("cpu(0)", echo_options, policy=policy)
    await supervised.start()
    work_ends = loop.time() + delay
    while loop.time() < work_ends:
        await asyncio.sleep(0.1)
    killed = loop.time()
    os.kill(supervised.status().pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(starts) < 2:
            await asyncio.sleep(0.01)
    assert starts[1] - killed < delay / 2
    await supervised.stop()


async def test_stopping_cancels_a_restart(echo_options):
    policy = RestartPolicy(first_delay_seconds=60.0, longest_delay_seconds=60.0)
    supervisor = Supervisor("cpu(0)", echo_options, policy=policy)
    await supervisor.start()
    os.kill(supervisor.status().pid, signal.SIGKILL)
    await wait_for_state(supervisor, ExecutorState.WAITING)
    await supervisor.stop()
    assert supervisor.state is ExecutorState.STOPPED
    await asyncio.sleep(0.3)
    assert supervisor.status().pid is None
