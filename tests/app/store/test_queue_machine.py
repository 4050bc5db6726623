"""The queue as a state machine against the real SQLite store, invariants checked at every step."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sqlalchemy import Connection

from app.domain.job import TERMINAL, Job, JobAction, JobEvent, JobKind, JobStatus, advance
from app.domain.module import SINGLE, ModuleRecord
from app.errors.tree import IllegalTransition, Superseded
from app.store import queue
from app.store.events import events_after
from app.store.filters import JobFilter
from app.store.jobs import get_job, list_jobs
from app.store.modules import insert_module
from app.store.store import Store
from served.migrated import migrated_database
from served.moments import at
from served.stored_jobs import insert_job

EXECUTORS = {"a": "cpu(0)", "b": "cpu(0)", "c": "cpu(1)"}
LEASE = 10.0
Attempt = tuple[int, int]
REPORTS = [None, JobEvent.PROGRESS, JobEvent.METRIC, JobEvent.LOG, JobEvent.CHECKPOINT]
ERROR = {"code": "x", "message": "y", "field": None}
ENDS: dict[str, Callable[[Connection, int, int, float], Job]] = {
    "succeed": lambda c, job_id, attempt, now: queue.succeed(c, job_id, attempt, {"a": 1}, now),
    "fail": lambda c, job_id, attempt, now: queue.fail(c, job_id, attempt, ERROR, now),
    "cancel": queue.cancel,
    "release": lambda c, job_id, attempt, now: queue.release(c, job_id, attempt, "stop", now),
    "fail and try again": lambda c, job_id, attempt, now: queue.fail(
        c, job_id, attempt, ERROR | {"code": "storage_full"}, now
    ),
    "lose": lambda c, job_id, attempt, now: queue.lose(c, job_id, attempt, "died", now),
    "refuse": lambda c, job_id, attempt, now: queue.lose(
        c, job_id, attempt, "in use", now, waits=True
    ),
}
WISHES: dict[str, tuple[Callable[[Connection, int, float], Job], JobEvent]] = {
    "pause": (queue.request_pause, JobEvent.PAUSED),
    "cancel": (queue.request_cancel, JobEvent.CANCELLED),
    "resume": (queue.resume, JobEvent.RESUMED),
    "retry": (queue.retry, JobEvent.RETRIED),
}
pick = st.integers(min_value=0, max_value=5)
"""Counts back from the newest job or attempt, so that each of them meets many events."""


class QueueMachine(RuleBasedStateMachine):
    """Drives the queue. Attempts that have ended go on reporting, which must have no effect."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.store = Store(migrated_database(Path(self.directory.name) / "store.db"))
        self.store.open()
        self.now = 1000.0
        self.jobs: list[int] = []
        self.attempts: list[Attempt] = []
        self.newest_event = 0
        self.before: dict[int, Job] = {}
        with self.store.write() as connection:
            for name, executor in EXECUTORS.items():
                insert_module(
                    connection,
                    ModuleRecord(name=name, symbols={SINGLE: "{}"}, executor=executor),
                )

    def teardown(self) -> None:
        self.store.close()
        self.directory.cleanup()

    # -- helpers ---------------------------------------------------------------------------

    def all_jobs(self) -> list[Job]:
        with self.store.read() as connection:
            return list(list_jobs(connection, JobFilter(), None, 200).items)[::-1]

    def job(self, job_id: int) -> Job:
        with self.store.read() as connection:
            return get_job(connection, job_id)

    def attempt(self, number: int, change: Callable[[Connection, int, int], Job]) -> None:
        job_id, attempt = self.attempts[-1 - number % len(self.attempts)]
        before = self.job(job_id)
        if before.status is JobStatus.RUNNING and before.attempt == attempt:
            with self.store.write() as connection:
                change(connection, job_id, attempt)
            return
        with pytest.raises(Superseded), self.store.write() as connection:
            change(connection, job_id, attempt)
        assert self.job(job_id) == before

    def ask(
        self,
        number: int,
        change: Callable[[Connection, int, float], Job],
        event: JobEvent,
    ) -> None:
        job_id = self.jobs[-1 - number % len(self.jobs)]
        before = self.job(job_id)
        try:
            with self.store.write() as connection:
                after = change(connection, job_id, at(self.now))
        except IllegalTransition:
            assert self.job(job_id) == before
            return
        if before.status is JobStatus.RUNNING:
            assert after.status is JobStatus.RUNNING
            assert (after.requested is None) == (event is JobEvent.RESUMED)
        else:
            assert after.status is advance(before.status, event)

    # -- rules -----------------------------------------------------------------------------

    @rule(
        module=st.sampled_from(sorted(EXECUTORS)),
        priority=st.integers(-2, 2),
        attempts=st.integers(1, 3),
        retries=st.integers(0, 2),
        times=st.tuples(st.none() | st.floats(1, 30), st.none() | st.floats(1, 30)),
    )
    def submit(
        self,
        module: str,
        priority: int,
        attempts: int,
        retries: int,
        times: tuple[float | None, float | None],
    ) -> None:
        deadline, timeout = times
        job = Job(
            kind=JobKind.FIT,
            module=module,
            priority=priority,
            max_attempts=attempts,
            max_retries=retries,
            deadline_seconds=deadline,
            deadline_at=None if deadline is None else self.now + deadline,
            timeout_seconds=timeout,
            lease_seconds=LEASE,
        )
        with self.store.write() as connection:
            self.jobs.append(insert_job(connection, job, (), self.now).id)

    @rule(executor=st.sampled_from(sorted(set(EXECUTORS.values()))), count=st.integers(1, 3))
    def claim(self, executor: str, count: int) -> None:
        before = self.all_jobs()
        busy = {job.module for job in before if job.status is JobStatus.RUNNING}
        free = [
            job
            for job in before
            if job.status is JobStatus.QUEUED
            and EXECUTORS[job.module] == executor
            and job.module not in busy
            and (job.not_before is None or job.not_before <= self.now)
        ]
        first: dict[str, Job] = {}
        for job in sorted(free, key=lambda job: (job.priority, job.id)):
            first.setdefault(job.module, job)
        expected = list(first.values())[:count]
        with self.store.read() as connection:
            candidates = queue.next_jobs(connection, executor, at(self.now), count)
        assert candidates == expected
        with self.store.write() as connection:
            claimed = queue.claim(connection, candidates, executor, "server", at(self.now))
        assert [(job.id, job.attempt) for job in claimed] == [
            (job.id, job.attempt + 1) for job in expected
        ]
        with self.store.write() as connection:
            again = queue.claim(connection, candidates, executor, "server", at(self.now))
        assert again == [], "jobs that are claimed already are not claimed again"
        for job in claimed:
            assert job.lease_until == self.now + LEASE
            self.attempts.append((job.id, job.attempt))

    @precondition(lambda self: self.attempts)
    @rule(number=pick, report=st.sampled_from(REPORTS))
    def attempt_reports(self, number: int, report: JobEvent | None) -> None:
        def change(connection: Connection, job_id: int, attempt: int) -> Job:
            if report is None:
                return queue.renew(connection, job_id, attempt, at(self.now))
            return queue.record(connection, job_id, attempt, report, {"epoch": 1}, at(self.now))

        self.attempt(number, change)

    @precondition(lambda self: self.attempts)
    @rule(number=pick, end=st.sampled_from(sorted(ENDS)))
    def attempt_ends(self, number: int, end: str) -> None:
        self.attempt(number, lambda c, job_id, attempt: ENDS[end](c, job_id, attempt, at(self.now)))

    @rule(seconds=st.floats(0.1, 2 * LEASE))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        with self.store.write() as connection:
            for job in queue.overdue(connection, at(self.now)):
                assert job.lease_until is not None
                assert job.lease_until < self.now
                queue.lose(connection, job.id, job.attempt, "its lease expired", at(self.now))
            assert queue.overdue(connection, at(self.now)) == []

    @rule()
    def late_jobs_expire(self) -> None:
        before = {job.id: job for job in self.all_jobs()}
        late = {
            job.id
            for job in before.values()
            if job.expires_at is not None
            and job.expires_at <= self.now
            and not job.is_expiring
            and job.requested is not JobAction.CANCEL
        }
        with self.store.write() as connection:
            assert queue.has_late(connection, at(self.now)) == bool(late)
            expired = queue.expire(connection, at(self.now))
            assert not queue.has_late(connection, at(self.now))
        assert {job.id for job in expired} == late
        for job in expired:
            if before[job.id].status is JobStatus.RUNNING:
                assert (job.requested, job.is_expiring) == (JobAction.PAUSE, True)
            else:
                assert job.status is JobStatus.FAILED
                assert job.error is not None
                assert job.error["code"] == "deadline_exceeded"

    @precondition(lambda self: self.jobs)
    @rule(number=pick, wish=st.sampled_from(sorted(WISHES)))
    def client_asks(self, number: int, wish: str) -> None:
        self.ask(number, *WISHES[wish])

    # -- invariants ------------------------------------------------------------------------

    @invariant()
    def one_job_of_a_module_runs(self) -> None:
        running = [job.module for job in self.all_jobs() if job.status is JobStatus.RUNNING]
        assert len(running) == len(set(running))

    @invariant()
    def every_job_is_consistent(self) -> None:
        for job in self.all_jobs():
            is_running = job.status is JobStatus.RUNNING
            assert (job.lease_until is not None) == is_running
            assert (job.server is not None) == is_running
            assert is_running or job.requested is None
            assert (job.claimed_at is not None) == is_running
            assert is_running or not job.is_expiring
            assert job.not_before is None or job.status is not JobStatus.RUNNING
            assert job.retries <= job.max_retries
            assert (job.finished_at is not None) == (job.status in TERMINAL)
            assert (job.error is not None) == (job.status is JobStatus.FAILED)
            assert (job.result is not None) == (job.status is JobStatus.SUCCEEDED)
            assert job.lost <= job.max_attempts
            if job.status in {JobStatus.QUEUED, JobStatus.RUNNING}:
                assert job.lost < job.max_attempts

    @invariant()
    def attempts_only_grow_and_requests_are_not_forgotten(self) -> None:
        now = {job.id: job for job in self.all_jobs()}
        for job_id, before in self.before.items():
            after = now[job_id]
            assert after.attempt >= before.attempt
            if before.requested is JobAction.CANCEL and after.status is JobStatus.RUNNING:
                assert after.requested is JobAction.CANCEL
            if before.requested is JobAction.CANCEL or before.is_expiring:
                assert after.status is not JobStatus.QUEUED
        self.before = now

    @invariant()
    def every_change_is_in_the_log(self) -> None:
        """Replaying a job's events gives its status; ids increase."""
        with self.store.read() as connection:
            rows = events_after(connection, 0, 10**6)
        assert [row.id for row in rows] == sorted({row.id for row in rows})
        assert (rows[-1].id if rows else 0) >= self.newest_event
        self.newest_event = rows[-1].id if rows else 0
        replayed: dict[int, JobStatus] = {}
        for row in rows:
            if row.type is JobEvent.SUBMITTED:
                assert row.job_id not in replayed
                replayed[row.job_id] = JobStatus.QUEUED
            else:
                replayed[row.job_id] = advance(replayed[row.job_id], row.type)
            assert row.status is replayed[row.job_id]
        assert replayed == {job.id: job.status for job in self.all_jobs()}


QueueMachine.TestCase.settings = settings(
    max_examples=35,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestQueueMachine = QueueMachine.TestCase
