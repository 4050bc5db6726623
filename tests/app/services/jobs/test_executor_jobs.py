"""An executor that does not answer delays neither jobs nor requests elsewhere."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.domain.job import Job, JobAction, JobKind, JobStatus
from app.domain.module import SINGLE, ModuleRecord
from app.link.job_messages import JobCancelled, JobDone
from app.link.process import ProcessClient, ProcessOptions
from app.services.jobs.dispatcher import Dispatcher
from app.services.jobs.submissions import read_submission
from served.scripted_executor import ScriptedExecutor, dispatching, of, until, until_status

S = JobStatus
FIT = {"dataset": "digits", "epochs": 1, "batch_size": 2, "optimizer": {"name": "sgd"}}


@pytest.fixture
def apart(bench: Any) -> Any:
    """The services with module ``a`` on ``cpu(0)`` and ``b`` on ``cpu(1)``."""
    bench.modules.change("b", lambda b: b.evolve(executor="cpu(1)"))
    return bench


async def test_a_busy_executor_delays_no_job_of_an_idle_one(apart: Any) -> None:
    busy, idle = ScriptedExecutor("cpu(0)"), ScriptedExecutor("cpu(1)")
    busy.replies.clear()
    async with dispatching(apart, busy, idle):
        stuck = apart.fit("a")
        await until(lambda: busy.starts)
        for _ in range(2):
            job = apart.fit("b")
            await until(lambda job=job: idle.starts and idle.starts[-1].job_id == job.id)
            idle.send(JobDone(**of(idle.starts[-1])))
            await until_status(apart, job, S.SUCCEEDED)
        assert apart.jobs.get(stuck.id).status is S.RUNNING
        busy.replies.set()


async def test_a_busy_executor_delays_no_request_to_another(apart: Any) -> None:
    busy, idle = ScriptedExecutor("cpu(0)"), ScriptedExecutor("cpu(1)")
    async with dispatching(apart, busy, idle):
        stuck, other = apart.fit("a"), apart.fit("b")
        await until(lambda: busy.starts and idle.starts)
        busy.replies.clear()
        apart.jobs.pause(stuck.id)
        await until(lambda: busy.controls)
        apart.jobs.cancel(other.id)
        await until(lambda: idle.controls)
        assert idle.controls[0].action is JobAction.CANCEL
        idle.send(JobCancelled(**of(idle.starts[0])))
        await until_status(apart, other, S.CANCELLED)
        busy.replies.set()


async def test_an_unanswered_start_delays_nothing_else_on_its_executor(bench: Any) -> None:
    executor = ScriptedExecutor()
    async with dispatching(bench, executor):
        first = bench.fit("a")
        await until(lambda: executor.starts)
        executor.replies.clear()
        bench.fit("b")
        await until(lambda: len(executor.starts) == 2)
        bench.jobs.cancel(first.id)
        await until(lambda: executor.controls)
        assert executor.controls[0].job_id == first.id
        executor.replies.set()


async def test_a_request_made_before_the_start_is_acknowledged_is_passed_on_afterwards(
    bench: Any,
) -> None:
    executor = ScriptedExecutor()
    executor.replies.clear()
    async with dispatching(bench, executor):
        job = bench.fit("a")
        await until(lambda: executor.starts)
        bench.jobs.cancel(job.id)
        beside = bench.fit("b")
        await until(lambda: len(executor.starts) == 2)
        assert executor.controls == [], "the executor may not know the job yet"
        executor.replies.set()
        await until(lambda: executor.controls)
        assert [control.job_id for control in executor.controls] == [job.id]
        assert bench.jobs.get(beside.id).status is S.RUNNING


async def test_short_jobs_are_claimed_ahead_but_not_started(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The jobs below count as short however slow this machine is.
    monkeypatch.setattr("app.services.jobs.executor_jobs._SHORT_SECONDS", 60.0)
    names = [f"m{number}" for number in range(5)]
    for name in names:
        bench.modules.create(ModuleRecord(name=name, symbols={SINGLE: "{}"}))
    executor = ScriptedExecutor()
    async with dispatching(bench, executor, jobs_per_executor=1) as dispatcher:
        for name in names:
            job = bench.fit(name)
            await until(lambda job=job: executor.starts and executor.starts[-1].job_id == job.id)
            executor.send(JobDone(**of(executor.starts[-1])))
            await until_status(bench, job, S.SUCCEEDED)
        first, ahead = bench.fit("a"), bench.fit("b")
        await until(lambda: bench.jobs.get(ahead.id).status is S.RUNNING)
        await until(lambda: executor.starts[-1].job_id == first.id)
        await until(lambda: bench.jobs.get(ahead.id).status is S.QUEUED)
        assert bench.jobs.get(ahead.id).lost == 0
        assert dispatcher.jobs_by_executor == {"cpu(0)": [first.id]}
        executor.send(JobDone(job_id=first.id, attempt=1))
        await until(lambda: executor.starts[-1].job_id == ahead.id)


async def test_waiting_short_jobs_are_claimed_in_bulk(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"m{number:02}" for number in range(16)]
    for name in names:
        bench.modules.create(ModuleRecord(name=name, symbols={SINGLE: "{}"}))
    claim, claimed = bench.queue.claim, []

    def counted(executor: str, count: int) -> list[Job]:
        found = claim(executor, count)
        claimed.append(len(found))
        return found

    monkeypatch.setattr(bench.queue, "claim", counted)
    for name in ("_SHORT_SECONDS", "_LONGEST_AHEAD_SECONDS"):  # however slow the machine is
        monkeypatch.setattr(f"app.services.jobs.executor_jobs.{name}", 60.0)
    executor = ScriptedExecutor()
    async with dispatching(bench, executor, jobs_per_executor=1):
        for name in names[:4]:
            job = bench.fit(name)
            await until(lambda job=job: executor.starts and executor.starts[-1].job_id == job.id)
            executor.send(JobDone(**of(executor.starts[-1])))
            await until_status(bench, job, S.SUCCEEDED)
        claimed.clear()
        asked = [read_submission(name, JobKind.FIT, FIT) for name in names]
        jobs = [one.id for one in bench.jobs.submit_all(asked)]
        for done, job_id in enumerate(jobs, 5):
            await until(lambda done=done: len(executor.starts) == done)
            assert executor.starts[-1].job_id == job_id, "one at a time, in their order"
            executor.send(JobDone(**of(executor.starts[-1])))
        await until_status(bench, bench.jobs.get(jobs[-1]), S.SUCCEEDED)
    assert sum(claimed) == len(jobs)
    assert len([count for count in claimed if count]) <= 5, claimed


async def test_two_processes_one_of_them_in_a_long_batch(apart: Any, tmp_path: Path) -> None:
    end_of_batch = tmp_path / "end of batch"
    options = ProcessOptions(
        threads=1,
        program=("app.executor", "--host", "served.busy_host:BusyHost"),
        environ={
            "PYTHONPATH": str(Path(__file__).parents[3]),
            "BUSY": "cpu(0)",
            "BUSY_UNTIL": str(end_of_batch),
        },
    )
    clients = [ProcessClient("cpu(0)", options), ProcessClient("cpu(1)", options)]
    await asyncio.gather(*(client.start() for client in clients))
    dispatcher = Dispatcher(clients, apart.queue, apart.runs, apart.notifiers)
    await dispatcher.start()
    try:
        slow = apart.fit("a")
        await until(lambda: dispatcher.jobs_by_executor["cpu(0)"] == [slow.id])
        for _ in range(3):
            await until_status(apart, apart.fit("b"), S.SUCCEEDED)
        assert apart.jobs.get(slow.id).status is S.RUNNING
        end_of_batch.touch()
        await until_status(apart, slow, S.SUCCEEDED)
    finally:
        await dispatcher.stop(grace_seconds=0.0)
        await asyncio.gather(*(client.stop() for client in clients))
