"""The dispatcher, with scripted executors."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from app.domain.checkpoint import CheckpointTag
from app.domain.dataset import DatasetKind
from app.domain.job import Job, JobEvent, JobStatus
from app.domain.module import BindSpec, InitSpec, InputDesc, OptimizerSpec, ParamsSource, Stage
from app.errors.tree import ExecutorGone, HostError, IllegalTransition, StorageFull, Unavailable
from app.files.checkpoint_files import write_checkpoint
from app.link.job_messages import (
    ExecutorEvent,
    JobCancelled,
    JobCheckpoint,
    JobDone,
    JobFailed,
    JobLog,
    JobPaused,
    JobPrepared,
    JobProgress,
)
from app.services.jobs.dispatcher import Dispatcher
from app.services.operations import background_tasks
from app.store import queue
from served.moments import at
from served.scripted_executor import ScriptedExecutor, dispatching, of, until, until_status

S = JobStatus
BIND = BindSpec(data_shapes=(InputDesc(name="data", shape=(2, 3)),))


async def test_a_job_is_started_with_all_it_needs_and_ends_as_reported(bench) -> None:
    executor = ScriptedExecutor()
    async with dispatching(bench, executor) as dispatcher:
        job = bench.fit()
        await until(lambda: executor.starts)
        (start,) = executor.starts
        assert of(start) == {"job_id": job.id, "attempt": 1}
        assert start.module == "a"
        assert start.params == job.params
        digits = bench.datasets.get("digits")
        assert start.datasets["digits"].record == digits
        assert start.datasets["digits"].path == str(bench.datasets.path(digits))
        assert start.checkpoint_root == str(bench.checkpoints.root("a"))
        assert (start.resume, start.output_path) == (None, None)
        assert dispatcher.jobs_by_executor == {"cpu(0)": [job.id]}
        executor.send(
            JobProgress(**of(start), epoch=0, epochs=2, batch=1),
            JobProgress(**of(start), epoch=0, epochs=2, batch=2),
            JobDone(**of(start), result={"accuracy": 1.0}),
        )
        done = await until_status(bench, job, S.SUCCEEDED)
        assert done.result == {"accuracy": 1.0}
        assert done.progress["batch"] == 2
        await until(lambda: dispatcher.jobs_by_executor == {"cpu(0)": []})
    rows = bench.jobs.events(job.id, types=[JobEvent.PROGRESS])
    assert rows[-1].data["batch"] == 2


async def test_a_fit_leaves_its_module_prepared_and_restorable(bench) -> None:
    executor = ScriptedExecutor()
    async with dispatching(bench, executor):
        job = bench.fit()
        await until(lambda: executor.starts)
        who = of(executor.starts[0])
        executor.send(
            JobPrepared(**who, bind=BIND, init=InitSpec(seed=1), optimizer=OptimizerSpec())
        )
        await until(lambda: bench.modules.get("a").stage is Stage.READY)
        with write_checkpoint(bench.checkpoints.root("a"), CheckpointTag(1), module="a", **who):
            pass
        executor.send(JobCheckpoint(**who, epoch=1), JobDone(**who))
        await until_status(bench, job, S.SUCCEEDED)
    module = bench.modules.get("a")
    assert (module.bind, module.params) == (BIND, ParamsSource.CHECKPOINT)
    assert module.checkpoint == (1, 0)
    assert [m.tag for m in bench.checkpoints.list_checkpoints("a").items] == [(1, 0)]


async def test_a_job_of_a_dead_executor_resumes_from_its_checkpoint(bench) -> None:
    executor = ScriptedExecutor()
    async with dispatching(bench, executor):
        job = bench.fit()
        await until(lambda: executor.starts)
        root = bench.checkpoints.root("a")
        with write_checkpoint(root, CheckpointTag(1), module="a", **of(executor.starts[0])):
            pass
        executor.send(JobCheckpoint(**of(executor.starts[0]), epoch=1))
        executor.alive = False
        lost = await until_status(bench, job, S.QUEUED)
        assert lost.lost == 1
        executor.alive = True
        await until(lambda: len(executor.starts) == 2)
        again = executor.starts[1]
        assert again.attempt == 2
        assert again.resume is not None
        executor.send(JobDone(**of(executor.starts[0]), result={"of": "the dead"}))
        executor.send(JobDone(**of(again), result={"of": "the living"}))
        done = await until_status(bench, job, S.SUCCEEDED)
        assert done.result == {"of": "the living"}


async def test_a_restart_between_two_looks_is_noticed(bench) -> None:
    executor = ScriptedExecutor()
    async with dispatching(bench, executor) as dispatcher:
        job = bench.fit()
        await until(lambda: executor.starts)
        await dispatcher.executor_started(executor)
        await until(lambda: len(executor.starts) == 2)
        assert bench.jobs.get(job.id).attempt == 2


async def test_a_job_whose_executor_always_dies_fails(bench) -> None:
    executor = ScriptedExecutor()
    executor.refusal = ExecutorGone("it crashed at once")
    async with dispatching(bench, executor):
        job = bench.fit()
        failed = await until_status(bench, job, S.FAILED)
    assert failed.attempt == 3
    assert failed.error["code"] == "attempts_exhausted"
    assert "it crashed at once" in failed.error["message"]


async def test_a_refused_job_fails_with_the_hosts_reason(bench) -> None:
    executor = ScriptedExecutor()
    executor.refusal = HostError("invalid_shape", "data has 3 columns, the module wants 4")
    async with dispatching(bench, executor):
        failed = await until_status(bench, bench.fit(), S.FAILED)
        assert failed.error["code"] == "invalid_shape"
        assert "wants 4" in failed.error["message"]
        executor.refusal = None
        job = bench.jobs.retry(failed.id)
        await until(lambda: executor.starts)
        executor.send(JobFailed(**of(executor.starts[0]), code="invalid", message="NaN"))
        again = await until_status(bench, job, S.FAILED)
        assert again.error == {"code": "invalid", "message": "NaN", "field": None}


async def test_jobs_of_one_module_run_in_sequence_and_of_others_in_parallel(bench) -> None:
    executor = ScriptedExecutor()
    async with dispatching(bench, executor):
        first, second, third = bench.fit("a"), bench.fit("a"), bench.fit("b")
        await until(lambda: len(executor.starts) == 2)
        assert {start.job_id for start in executor.starts} == {first.id, third.id}
        await asyncio.sleep(0.2)
        assert bench.jobs.get(second.id).status is S.QUEUED
        executor.send(JobDone(job_id=first.id, attempt=1))
        await until(lambda: len(executor.starts) == 3)
        assert executor.starts[2].job_id == second.id


async def test_jobs_per_executor_are_limited(bench) -> None:
    executor = ScriptedExecutor()
    async with dispatching(bench, executor, jobs_per_executor=1):
        bench.fit("a"), bench.fit("b")
        await until(lambda: executor.starts)
        await asyncio.sleep(0.2)
        assert len(executor.starts) == 1
        executor.send(JobDone(**of(executor.starts[0])))
        await until(lambda: len(executor.starts) == 2)


async def test_requests_are_passed_on_once_and_granted_when_done(bench) -> None:
    executor = ScriptedExecutor()
    async with dispatching(bench, executor):
        job = bench.fit()
        await until(lambda: executor.starts)
        bench.jobs.pause(job.id)
        await until(lambda: executor.controls)
        await asyncio.sleep(0.2)
        assert [control.action for control in executor.controls] == ["pause"]
        executor.send(JobPaused(**of(executor.starts[0])))
        await until_status(bench, job, S.PAUSED)
        bench.jobs.resume(job.id)
        await until(lambda: len(executor.starts) == 2)
        bench.jobs.cancel(job.id)
        await until(lambda: executor.controls[-1].attempt == 2)
        assert executor.controls[-1].action == "cancel"
        executor.send(JobCancelled(**of(executor.starts[1])))
        await until_status(bench, job, S.CANCELLED)


async def test_a_job_whose_pause_is_withdrawn_too_late_starts_again(bench) -> None:
    executor = ScriptedExecutor()
    async with dispatching(bench, executor):
        job = bench.fit()
        await until(lambda: executor.starts)
        bench.jobs.pause(job.id)
        await until(lambda: executor.controls)
        withdrawn = bench.jobs.resume(job.id)
        assert (withdrawn.status, withdrawn.requested) == (S.RUNNING, None)
        with pytest.raises(IllegalTransition, match="or one that was asked to pause"):
            bench.jobs.resume(job.id)
        executor.send(JobPaused(**of(executor.starts[0])))
        await until(lambda: len(executor.starts) == 2)
        assert bench.jobs.get(job.id).lost == 0
        executor.send(JobDone(**of(executor.starts[1])))
        await until_status(bench, job, S.SUCCEEDED)


async def test_a_request_to_a_dead_executor_is_granted(bench) -> None:
    executor = ScriptedExecutor()
    async with dispatching(bench, executor):
        job = bench.fit()
        await until(lambda: executor.starts)
        executor.alive = False
        bench.jobs.cancel(job.id)
        await until_status(bench, job, S.CANCELLED)


async def test_the_lease_of_a_running_job_is_renewed(bench) -> None:
    executor = ScriptedExecutor()
    async with dispatching(bench, executor):
        job = bench.fit()
        await until(lambda: executor.starts)
        before = bench.jobs.get(job.id).lease_until
        bench.clock.now += 5
        await until(lambda: bench.jobs.get(job.id).lease_until == before + 5)
        bench.clock.now += 9
        await until(lambda: bench.jobs.get(job.id).lease_until == before + 14)
        assert bench.jobs.get(job.id).attempt == 1


async def test_a_job_taken_over_by_another_server_is_stopped_here(bench, make_bench) -> None:
    executor = ScriptedExecutor()
    async with dispatching(bench, executor) as dispatcher:
        job = bench.fit()
        await until(lambda: executor.starts)
        other = make_bench()
        with bench.store.write() as connection:
            queue.lose(connection, job.id, 1, "thought dead", at(0.0))
            waiting = queue.next_jobs(connection, "cpu(0)", at(2000.0), 1)
            (taken,) = queue.claim(connection, waiting, "cpu(0)", other.liveness.server, at(2000.0))
        await until(lambda: executor.controls)
        assert (executor.controls[0].attempt, executor.controls[0].action) == (1, "cancel")
        assert executor.controls[0].is_void
        assert dispatcher.jobs_by_executor == {"cpu(0)": []}
        executor.send(JobCancelled(job_id=job.id, attempt=1))
        await asyncio.sleep(0.1)
        assert bench.jobs.get(job.id) == taken


async def test_an_attempt_without_its_job_is_stopped_at_its_next_report(bench, make_bench) -> None:
    executor = ScriptedExecutor()
    async with dispatching(bench, executor, lease_seconds=300.0) as dispatcher:
        job = bench.fit()
        await until(lambda: executor.starts)
        other = make_bench()
        with bench.store.write() as connection:
            queue.lose(connection, job.id, 1, "thought dead", at(0.0))
            waiting = queue.next_jobs(connection, "cpu(0)", at(2000.0), 1)
            queue.claim(connection, waiting, "cpu(0)", other.liveness.server, at(2000.0))
        executor.send(JobProgress(job_id=job.id, attempt=1, epoch=0, epochs=1, batch=1))
        await until(lambda: executor.controls)
        assert executor.controls[0].is_void
        assert dispatcher.jobs_by_executor == {"cpu(0)": []}


async def test_a_job_whose_end_arrived_before_the_death_is_not_lost(bench, monkeypatch) -> None:
    may_store, store = threading.Event(), bench.runs.enter

    def store_late(messages):
        assert may_store.wait(20)
        return store(messages)

    monkeypatch.setattr(bench.runs, "enter", store_late)
    executor = ScriptedExecutor()
    async with dispatching(bench, executor) as dispatcher:
        job = bench.fit()
        await until(lambda: executor.starts)
        executor.send(JobDone(**of(executor.starts[0])))
        executor.alive = False
        restarted = asyncio.create_task(dispatcher.executor_started(executor))
        await asyncio.sleep(0.2)
        may_store.set()
        await restarted
        await until_status(bench, job, S.SUCCEEDED)
        assert bench.jobs.get(job.id).attempt == 1
    executor = ScriptedExecutor()
    async with dispatching(bench, executor) as dispatcher:
        job = bench.fit()
        await until(lambda: executor.starts)
        bench.queue.lose(job.id, 1, "thought dead")
        await until(lambda: len(executor.starts) == 2)
        executor.send(JobDone(job_id=job.id, attempt=1), JobDone(job_id=job.id, attempt=2))
        await until_status(bench, job, S.SUCCEEDED)
        await until(lambda: dispatcher.jobs_by_executor == {"cpu(0)": []})
        kinds = [row.type for row in bench.jobs.events(job.id)]
        assert kinds.count(JobEvent.SUCCEEDED) == 1


async def test_a_job_claimed_again_before_its_loss_is_noticed_takes_no_second_place(bench) -> None:
    executor = ScriptedExecutor()
    async with dispatching(bench, executor, jobs_per_executor=2):
        job = bench.fit()
        for attempt in range(1, 4):
            await until(lambda attempt=attempt: len(executor.starts) == attempt)
            bench.queue.lose(job.id, attempt, "its lease expired", counts=False)
        await until(lambda: len(executor.starts) == 4)
        told = {(one.attempt, one.action, one.is_void) for one in executor.controls}
        assert told == {(attempt, "cancel", True) for attempt in range(1, 4)}
        executor.send(JobDone(job_id=job.id, attempt=4))
        await until_status(bench, job, S.SUCCEEDED)


@pytest.mark.parametrize("code", ["in_use", "unavailable", "storage_full"])
async def test_a_temporary_refusal_delays_the_job_and_costs_an_attempt(bench, code: str) -> None:
    executor = ScriptedExecutor()
    executor.refusal = HostError(code, "another job works on the module")
    async with dispatching(bench, executor) as dispatcher:
        job = bench.fit()
        await until(lambda: bench.jobs.get(job.id).lost == 1)
        put_off = bench.jobs.get(job.id)
        assert (put_off.status, put_off.not_before) == (S.QUEUED, bench.clock.now + 1)
        assert dispatcher.jobs_by_executor == {"cpu(0)": []}
        executor.refusal = None
        beside = bench.fit("b")
        await until(lambda: [start.job_id for start in executor.starts] == [beside.id])
        bench.clock.now += 1
        await until(lambda: len(executor.starts) == 2)
        assert (executor.starts[1].job_id, executor.starts[1].attempt) == (job.id, 2)


async def test_reports_are_kept_while_the_store_is_unavailable(bench, monkeypatch) -> None:
    monkeypatch.setattr(background_tasks, "AFTER_ERROR_SECONDS", 0.01)
    refusals: list[Exception] = [StorageFull(), Unavailable("locked"), StorageFull()]
    record = bench.queue.record

    def refuse_then_record(messages: list[ExecutorEvent]) -> list[Any]:
        if refusals:
            raise refusals.pop()
        return record(messages)

    executor = ScriptedExecutor()
    async with dispatching(bench, executor) as dispatcher:
        job = bench.fit()
        await until(lambda: executor.starts)
        monkeypatch.setattr(bench.queue, "record", refuse_then_record)
        who = of(executor.starts[0])
        executor.send(JobLog(**who, message="hello"), JobDone(**who, result={"accuracy": 1.0}))
        await until_status(bench, job, S.SUCCEEDED)
        await until(lambda: dispatcher.jobs_by_executor == {"cpu(0)": []})
    assert not refusals
    kinds = [row.type for row in bench.jobs.events(job.id)]
    assert kinds[-2:] == [JobEvent.LOG, JobEvent.SUCCEEDED]


async def test_a_job_whose_end_cannot_be_recorded_is_retried(bench, monkeypatch) -> None:
    monkeypatch.setattr(background_tasks, "AFTER_ERROR_SECONDS", 0.01)
    faults = [OSError("input/output error")]
    record = bench.queue.record

    def fail_once(messages: list[ExecutorEvent]) -> list[Any]:
        if faults:
            raise faults.pop()
        return record(messages)

    executor = ScriptedExecutor()
    async with dispatching(bench, executor):
        job = bench.fit()
        await until(lambda: executor.starts)
        monkeypatch.setattr(bench.queue, "record", fail_once)
        executor.send(JobDone(**of(executor.starts[0])))
        await until(lambda: len(executor.starts) == 2)
        executor.send(JobDone(**of(executor.starts[1])))
        done = await until_status(bench, job, S.SUCCEEDED)
    assert (done.attempt, done.lost) == (2, 1)


async def test_stopping_lets_jobs_save_and_gives_them_back(bench) -> None:
    executor = ScriptedExecutor()
    dispatcher = Dispatcher([executor], bench.queue, bench.runs, bench.notifiers)
    await dispatcher.start()
    saves, hangs = bench.fit("a"), bench.fit("b")
    await until(lambda: len(executor.starts) == 2)
    stopping = asyncio.create_task(dispatcher.stop(grace_seconds=0.5))
    await until(lambda: len(executor.controls) == 2)
    assert {control.action for control in executor.controls} == {"pause"}
    executor.send(JobPaused(job_id=saves.id, attempt=1))
    await stopping
    for job in (saves, hangs):
        given_back = bench.jobs.get(job.id)
        assert (given_back.status, given_back.lost) == (S.QUEUED, 0)
    assert dispatcher.jobs_by_executor == {"cpu(0)": []}
    await dispatcher.stop()


async def test_stopping_during_a_claim_leaves_no_job_running(bench, monkeypatch) -> None:
    executor = ScriptedExecutor()
    claim = bench.queue.claim
    is_claiming = threading.Event()

    def claim_slowly(name: str, count: int) -> list[Job]:
        is_claiming.set()
        time.sleep(0.2)
        return claim(name, count)

    monkeypatch.setattr(bench.queue, "claim", claim_slowly)
    job = bench.fit()
    dispatcher = Dispatcher([executor], bench.queue, bench.runs, bench.notifiers)
    await dispatcher.start()
    await until(is_claiming.is_set)
    await dispatcher.stop(grace_seconds=0.1)
    given_back = bench.jobs.get(job.id)
    assert (given_back.status, given_back.lost) == (S.QUEUED, 0)


async def test_unknown_messages_are_ignored(bench) -> None:
    executor = ScriptedExecutor()
    async with dispatching(bench, executor):
        job = bench.fit()
        await until(lambda: executor.starts)
        executor.send_raw({"type": "weather", "is": "fine"})
        executor.send_raw({"type": "progress", "job_id": "one"})
        executor.send(JobDone(job_id=99, attempt=1))
        executor.send(JobDone(**of(executor.starts[0])))
        await until_status(bench, job, S.SUCCEEDED)


async def test_a_job_with_a_missing_dataset_fails_and_the_next_one_runs(bench) -> None:
    job = bench.fit()
    with bench.store.write() as connection:
        connection.exec_driver_sql("DELETE FROM datasets")
    executor = ScriptedExecutor()
    async with dispatching(bench, executor):
        failed = await until_status(bench, job, S.FAILED)
        assert failed.error["code"] == "not_found"
        assert executor.starts == []
        bench.upload("digits", b"1,2\n", DatasetKind.CSV)
        following = bench.fit()
        await until(lambda: executor.starts)
        assert executor.starts[0].job_id == following.id


async def test_an_error_of_the_store_is_survived(bench, monkeypatch, caplog) -> None:
    executor = ScriptedExecutor()
    claim = bench.queue.claim
    calls = 0

    def claim_after_an_error(name: str, count: int) -> list[Job]:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise OSError("disk full")
        return claim(name, count)

    monkeypatch.setattr(bench.queue, "claim", claim_after_an_error)
    async with dispatching(bench, executor):
        bench.fit()
        await until(lambda: executor.starts)
    assert "disk full" in caplog.text


@pytest.mark.parametrize("name", ["cpu(1)", "gpu(0)"])
async def test_modules_of_other_executors_are_left_alone(bench, name: str) -> None:
    bench.modules.change("a", lambda a: a.evolve(executor=name))
    executor = ScriptedExecutor()
    async with dispatching(bench, executor):
        other, own = bench.fit("a"), bench.fit("b")
        await until(lambda: executor.starts)
        assert [start.job_id for start in executor.starts] == [own.id]
        assert bench.jobs.get(other.id).status is S.QUEUED
