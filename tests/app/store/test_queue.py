"""The queue: order, leases, fencing, requests, and concurrent claims."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.domain.job import Job, JobAction, JobEvent, JobKind, JobStatus
from app.errors.tree import IllegalTransition, NotFound, Superseded
from app.store import queue
from app.store.events import events_after
from app.store.jobs import get_job
from app.store.store import Store
from served.moments import at
from served.stored_jobs import insert_job

S = JobStatus


def submit(store: Store, module: str = "a", **fields: object) -> Job:
    with store.write() as connection:
        job = Job(kind=JobKind.FIT, module=module, lease_seconds=10, **fields)
        return insert_job(connection, job, (), 0.0)


def claim(store: Store, now: float = 0.0, server: str = "s") -> Job | None:
    with store.write() as connection:
        waiting = queue.next_jobs(connection, "cpu(0)", at(now), 1)
        return next(iter(queue.claim(connection, waiting, "cpu(0)", server, at(now))), None)


def change(store: Store, function, *arguments) -> Job:
    with store.write() as connection:
        return function(connection, *arguments)


def read(store: Store, job_id: int) -> Job:
    with store.read() as connection:
        return get_job(connection, job_id)


def kinds(store: Store, job_id: int) -> list[JobEvent]:
    with store.read() as connection:
        return [row.type for row in events_after(connection, 0, 100, job_id)]


def test_jobs_of_a_module_run_by_priority_and_age(two_modules: Store) -> None:
    late = submit(two_modules, priority=5)
    first = submit(two_modules)
    second = submit(two_modules)
    urgent = submit(two_modules, priority=-1)
    order = []
    while (job := claim(two_modules)) is not None:
        assert claim(two_modules) is None, "one job of a module at a time"
        order.append(job.id)
        change(two_modules, queue.succeed, job.id, job.attempt, {}, at(1.0))
    assert order == [urgent.id, first.id, second.id, late.id]


def test_modules_run_in_parallel_on_their_own_executors(two_modules: Store) -> None:
    submit(two_modules, "a")
    submit(two_modules, "b")
    claimed = {job.module for job in (claim(two_modules), claim(two_modules)) if job}
    assert claimed == {"a", "b"}
    with two_modules.read() as connection:
        assert queue.next_jobs(connection, "gpu(7)", at(0.0), 9) == []


def test_an_attempt_presumed_dead_is_void_when_it_returns(two_modules: Store) -> None:
    submit(two_modules)
    old = claim(two_modules, now=0.0)
    assert old is not None
    with two_modules.read() as connection:
        assert queue.overdue(connection, at(10.0)) == []
        assert [job.id for job in queue.overdue(connection, at(10.5))] == [old.id]
    change(two_modules, queue.lose, old.id, old.attempt, "its lease expired", at(10.5))
    new = claim(two_modules, now=11.0)
    assert new is not None
    assert new.attempt == old.attempt + 1
    with pytest.raises(Superseded, match=f"attempt {old.attempt} of job {old.id} is void"):
        change(two_modules, queue.renew, old.id, old.attempt, at(12.0))
    with pytest.raises(Superseded):
        change(two_modules, queue.succeed, old.id, old.attempt, {}, at(12.0))
    assert read(two_modules, old.id) == new


def test_renewal_extends_the_lease(two_modules: Store) -> None:
    submit(two_modules)
    job = claim(two_modules, now=0.0)
    assert job is not None
    change(two_modules, queue.renew, job.id, job.attempt, at(9.0))
    with two_modules.read() as connection:
        assert queue.overdue(connection, at(18.0)) == []


def test_consecutive_lost_attempts_fail_the_job_with_the_reason(two_modules: Store) -> None:
    job_id = submit(two_modules, max_attempts=2).id
    for _ in range(2):
        job = claim(two_modules)
        assert job is not None
        job = change(two_modules, queue.lose, job.id, job.attempt, "executor died", at(1.0))
    assert job.status is S.FAILED
    assert job.error == {
        "code": "attempts_exhausted",
        "message": "2 attempts in a row were lost, the last: executor died",
        "field": None,
    }
    assert kinds(two_modules, job_id)[-1] is JobEvent.EXHAUSTED
    job = change(two_modules, queue.retry, job_id, at(2.0))
    assert (job.status, job.lost, job.error, job.attempt) == (S.QUEUED, 0, None, 2)


def test_a_checkpoint_forgives_earlier_lost_attempts(two_modules: Store) -> None:
    submit(two_modules, max_attempts=2)
    for _ in range(4):
        job = claim(two_modules)
        assert job is not None
        change(two_modules, queue.record, job.id, job.attempt, JobEvent.CHECKPOINT, {}, at(1.0))
        job = change(two_modules, queue.lose, job.id, job.attempt, "died", at(1.0))
        assert (job.status, job.lost) == (S.QUEUED, 1)


def test_progress_is_stored_in_the_job_and_the_log(two_modules: Store) -> None:
    submit(two_modules)
    job = claim(two_modules)
    assert job is not None
    data = {"epoch": 1, "loss": float("nan")}
    change(two_modules, queue.record, job.id, job.attempt, JobEvent.PROGRESS, data, at(1.0))
    assert read(two_modules, job.id).progress == {"epoch": 1, "loss": None}
    assert kinds(two_modules, job.id) == [
        JobEvent.SUBMITTED,
        JobEvent.CLAIMED,
        JobEvent.PROGRESS,
    ]


@pytest.mark.parametrize(
    ("asked", "status", "event"),
    [
        (queue.request_pause, S.PAUSED, JobEvent.PAUSED),
        (queue.request_cancel, S.CANCELLED, JobEvent.CANCELLED),
    ],
)
def test_a_request_takes_effect_at_once_while_waiting_and_later_while_running(
    two_modules: Store, asked, status: JobStatus, event: JobEvent
) -> None:
    submit(two_modules)
    running = claim(two_modules)
    assert running is not None
    waiting = submit(two_modules)
    assert change(two_modules, asked, waiting.id, at(1.0)).status is status
    assert change(two_modules, asked, running.id, at(1.0)).status is S.RUNNING
    assert change(two_modules, asked, running.id, at(1.0)).status is S.RUNNING, (
        "asked a second time"
    )
    assert event not in kinds(two_modules, running.id)
    given_back = change(two_modules, queue.lose, running.id, running.attempt, "died", at(2.0))
    assert given_back.status is status
    assert kinds(two_modules, running.id)[-1] is event


def test_cancel_overrides_pause_but_not_the_reverse(two_modules: Store) -> None:
    submit(two_modules)
    job = claim(two_modules)
    assert job is not None
    assert change(two_modules, queue.request_pause, job.id, at(1.0)).requested is JobAction.PAUSE
    assert change(two_modules, queue.request_cancel, job.id, at(1.0)).requested is JobAction.CANCEL
    with pytest.raises(IllegalTransition, match="being cancelled"):
        change(two_modules, queue.request_pause, job.id, at(1.0))


def test_an_unknown_job_is_not_found(two_modules: Store) -> None:
    with pytest.raises(NotFound, match="job '77'"):
        change(two_modules, queue.request_cancel, 77, at(0.0))
    with pytest.raises(NotFound):
        change(two_modules, queue.renew, 77, 1, at(0.0))


def test_concurrent_threads_claim_each_job_once(two_modules: Store) -> None:
    expected = {submit(two_modules, module).id for module in "ab" for _ in range(10)}
    claimed: list[int] = []
    running: Counter[str] = Counter()
    lock = threading.Lock()

    def work() -> None:
        idle = 0
        while idle < 20:
            job = claim(two_modules)
            if job is None:
                idle += 1
                continue
            with lock:
                running[job.module] += 1
                assert running[job.module] == 1, "one job of a module at a time"
                claimed.append(job.id)
            assert read(two_modules, job.id).attempt == 1
            with lock:
                running[job.module] -= 1
            change(two_modules, queue.succeed, job.id, job.attempt, {}, at(1.0))

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(work) for _ in range(6)]:
            done.result()
    assert sorted(claimed) == sorted(expected)


CLAIMER = """
    import sys
    from app.domain.moment import Moment
    from app.store import queue
    from app.store.store import Store

    now = Moment(1.0, 1.0)
    store = Store(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    idle = 0
    while idle < 50:
        with store.write() as connection:
            waiting = queue.next_jobs(connection, "cpu(0)", now, 1)
            job = next(iter(queue.claim(connection, waiting, "cpu(0)", sys.argv[2], now)), None)
        if job is None:
            idle += 1
            continue
        idle = 0
        print(job.id, flush=True)
        with store.write() as connection:
            queue.succeed(connection, job.id, job.attempt, {"by": sys.argv[2]}, now)
    store.close()
"""


def test_concurrent_processes_claim_each_job_once(two_modules: Store, database_url: str) -> None:
    expected = sorted(submit(two_modules, module).id for module in "ab" for _ in range(25))
    claimers = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(CLAIMER), database_url, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]
    for claimer in claimers:
        assert claimer.stdout is not None
        assert claimer.stdout.readline() == "ready\n"
    for claimer in claimers:
        assert claimer.stdin is not None
        claimer.stdin.write("go\n")
        claimer.stdin.flush()
    claimed = [[int(line) for line in claimer.communicate()[0].split()] for claimer in claimers]
    assert [claimer.returncode for claimer in claimers] == [0, 0]
    assert sorted(claimed[0] + claimed[1]) == expected
    for job_id in expected:
        assert read(two_modules, job_id).status is S.SUCCEEDED
