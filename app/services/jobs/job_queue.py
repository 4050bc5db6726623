"""The dispatcher's side of the job queue: claims, leases, reports of attempts, and recovery."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from sqlalchemy import Connection

from app.domain import job_transitions
from app.domain.codec import to_plain
from app.domain.job import Job, JobEvent, JobStatus
from app.domain.job_transitions import Move
from app.domain.moment import Moment
from app.errors.database import RowDamaged
from app.errors.tree import NotFound, Superseded
from app.link.job_messages import (
    ExecutorEvent,
    JobCancelled,
    JobCheckpoint,
    JobDone,
    JobFailed,
    JobLog,
    JobMetric,
    JobPaused,
    JobPrepared,
    JobProgress,
    JobStatistics,
)
from app.services.jobs.jobs import Clock
from app.services.operations.liveness import Liveness
from app.services.operations.notifier import Notifiers
from app.store import queue
from app.store.events import thin_out
from app.store.idempotency import forget_keys_before
from app.store.jobs import get_job, running_jobs
from app.store.mending import damaged_jobs, fail_damaged
from app.store.queue import Report
from app.store.store import Store

__all__ = ["JobQueue"]

_log = logging.getLogger(__name__)

_KEY_LIFE_SECONDS = 24 * 3600.0
_REPORTS = {
    JobProgress: JobEvent.PROGRESS,
    JobMetric: JobEvent.METRIC,
    JobStatistics: JobEvent.STATISTICS,
    JobLog: JobEvent.LOG,
    JobCheckpoint: JobEvent.CHECKPOINT,
}
_THINNED = (JobEvent.PROGRESS, JobEvent.LOG, JobEvent.STATISTICS)
_ENVELOPE = frozenset({"type", "job_id", "attempt"})


class JobQueue:
    """The store's queue for one server process. Its methods block."""

    def __init__(
        self,
        store: Store,
        notifiers: Notifiers,
        liveness: Liveness,
        *,
        keep_progress_events: int = 500,
        before_loss: Callable[[Job], None] = lambda job: None,
        clock: Clock | None = None,
    ) -> None:
        """Prepare.

        Args:
            before_loss: called with a job whose attempt is about to be declared dead.
            clock: None for the clock of the store.
        """
        self._store = store
        self._notifiers = notifiers
        self._presence = liveness
        self._keep = keep_progress_events
        self._before_loss = before_loss
        self._clock = clock or store.clock
        self._reports: dict[int, int] = {}

    def claim(self, executor: str, count: int = 1) -> list[Job]:
        """Claim up to ``count`` of the next jobs for an executor; an attempt of each begins."""
        now = self._clock()
        with self._store.read() as connection:
            candidates = queue.next_jobs(connection, executor, now, count)
        if not candidates:
            return []  # the usual case, which needs no write lock
        server = self._presence.server
        with self._store.write() as connection:
            claimed = queue.claim(connection, candidates, executor, server, now)
        if claimed:
            self._notifiers.events.notify()
        return claimed

    def renew(self, claims: Sequence[tuple[int, int]]) -> tuple[list[Job], list[tuple[int, int]]]:
        """Extend the leases of attempts, given as (job, attempt).

        Returns:
            The jobs that are still claimed, and the attempts that no longer have their jobs.
        """
        if not claims:
            return [], []
        now = self._clock()
        reports = [
            Report(*claim, lambda job: job_transitions.renewed(job, now)) for claim in claims
        ]
        with self._store.write() as connection:
            outcomes = queue.enter(connection, reports, now)
        pairs = list(zip(claims, outcomes, strict=True))
        kept = [job for job in outcomes if isinstance(job, Job)]
        return kept, [claim for claim, job in pairs if not isinstance(job, Job)]

    def requests(self, job_ids: Iterable[int]) -> list[Job]:
        """Return those of these jobs that have been asked to pause or to cancel."""
        with self._store.read() as connection:
            return queue.requested_jobs(connection, job_ids)

    def record(self, messages: Sequence[ExecutorEvent]) -> list[Job | Superseded | NotFound]:
        """Store the reports of attempts in one transaction.

        Returns:
            For each message, the job after it; Superseded if the attempt no longer has the job and
            the report was ignored; NotFound if the job was deleted with its module.
        """
        now = self._clock()
        reports = [Report(one.job_id, one.attempt, self._change(one, now)) for one in messages]
        with self._store.write() as connection:
            outcomes = queue.enter(connection, reports, now)
        self._notifiers.events.notify()
        if any(isinstance(one, Job) and one.status is not JobStatus.RUNNING for one in outcomes):
            self._notifiers.work.notify()  # the next job of the same module may begin
        self._count(messages)
        return outcomes

    def expire(self) -> list[Job]:
        """Enforce the time limits of jobs: fail those that wait, and ask those that run to stop."""
        now = self._clock()
        with self._store.read() as connection:
            if not queue.has_late(connection, now):
                return []
        with self._store.write() as connection:
            expired = queue.expire(connection, now)
        self._notifiers.notify()
        return expired

    def release(self, job_id: int, attempt: int, reason: str) -> Job | None:
        """End an attempt that stopped cleanly; return None if it no longer had its job."""
        return self._end(
            lambda connection, now: queue.release(connection, job_id, attempt, reason, now)
        )

    def lose(
        self,
        job_id: int,
        attempt: int,
        reason: str,
        *,
        waits: bool = False,
        counts: bool = True,
    ) -> Job | None:
        """End an attempt that died; return None if it no longer had its job.

        Args:
            waits, counts: see ``job_transitions.lost``.
        """
        self._prepare_loss(job_id, attempt)
        job = self._end(
            lambda connection, now: queue.lose(
                connection, job_id, attempt, reason, now, waits=waits, counts=counts
            )
        )
        if job is not None:
            _log.warning("job %d lost attempt %d (%s), is %s", job_id, attempt, reason, job.status)
        return job

    def _prepare_loss(self, job_id: int, attempt: int) -> None:
        try:
            with self._store.read() as connection:
                job = get_job(connection, job_id)
        except (NotFound, RowDamaged):
            return
        if (job.status, job.attempt) == (JobStatus.RUNNING, attempt):
            self._before_loss(job)

    def fail(self, job_id: int, attempt: int, code: str, message: str) -> Job | None:
        """End an attempt and its job with an error; return None if it no longer had its job."""
        error = {"code": code, "message": message, "field": None}
        return self._end(
            lambda connection, now: queue.fail(connection, job_id, attempt, error, now)
        )

    def recover(self) -> list[Job]:
        """Return the running jobs of dead servers, and jobs with expired leases, to the queue.

        To be called at the start, so that jobs of a crashed server need not wait for their leases
        to expire, and then periodically.
        """
        self._fail_damaged()
        with self._store.read() as connection:
            running = running_jobs(connection)
            overdue = {job.id for job in queue.overdue(connection, self._clock())}
        taken = []
        for job in running:
            server = str(job.server)
            if self._presence.is_dead(server):
                reason = "its server died"
            elif job.id in overdue:
                reason = "its lease expired"
            else:
                continue
            taken.append(self.lose(job.id, job.attempt, reason))
        self._presence.forget_dead({str(job.server) for job in running})
        return [job for job in taken if job is not None]

    def _fail_damaged(self) -> None:
        with self._store.read() as connection:
            damaged = damaged_jobs(connection)
        if not damaged:
            return
        with self._store.write() as connection:
            failed = fail_damaged(connection, damaged, self._clock())
        for job in failed:
            _log.warning("job %d of module %s failed: its row was damaged", job.id, job.module)
        self._notifiers.notify()

    def tidy(self, job_ids: Iterable[int]) -> None:
        """Remove all but the newest progress reports, log lines and statistics of jobs, and expired
        idempotency keys."""
        for job_id in job_ids:
            self._thin_out(job_id)
        with self._store.write() as connection:
            forget_keys_before(connection, self._clock().earlier - _KEY_LIFE_SECONDS)

    def tidy_ended(self, job: Job) -> None:
        """Remove all but the newest reports of a job whose attempt ended, if there may be more."""
        # Only the reports of this attempt were counted; earlier ones may have left as many each.
        if self._reports.pop(job.id, 0) * job.attempt > self._keep:
            self._thin_out(job.id)

    def _thin_out(self, job_id: int) -> None:
        with self._store.write() as connection:
            for type in _THINNED:
                thin_out(connection, job_id, type, self._keep)

    def _count(self, messages: Sequence[ExecutorEvent]) -> None:
        for message in messages:
            if _REPORTS.get(type(message)) in _THINNED:
                self._reports[message.job_id] = self._reports.get(message.job_id, 0) + 1

    def _end(self, change: Callable[[Connection, Moment], Job]) -> Job | None:
        try:
            with self._store.write() as connection:
                job = change(connection, self._clock())
        except (Superseded, NotFound):
            return None
        self._notifiers.notify()
        return job

    def _change(self, message: ExecutorEvent, now: Moment) -> Callable[[Job], Move]:
        """Return the state transition that a message means for its job."""
        match message:
            case JobDone(result=result):
                return lambda job: job_transitions.succeeded(job, result, now)
            case JobFailed(code=code, message=text, field=field):
                error = {"code": code, "message": text, "field": field}
                return lambda job: job_transitions.failed(job, error, now)
            case JobCancelled():
                return lambda job: job_transitions.cancelled(job, now)
            case JobPaused():
                # A pause that no client requested is due to this server's shutdown.
                return lambda job: job_transitions.released(job, "stopped in good order", now)
            case JobPrepared():
                return lambda job: job_transitions.renewed(job, now)
            case _:
                plain = to_plain(message)
                data = {name: plain[name] for name in plain if name not in _ENVELOPE}
                kind = _REPORTS[type(message)]
                return lambda job: job_transitions.recorded(job, kind, data, now)
