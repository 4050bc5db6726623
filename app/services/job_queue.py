"""The queue as the dispatcher sees it: claims, leases, what attempts report, and recovery."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from sqlalchemy import Connection

from app.domain.codec import to_plain
from app.domain.job import Job, JobEvent
from app.errors import NotFound, Superseded
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
from app.services.bell import Bell
from app.services.jobs import Clock
from app.services.presence import Presence
from app.store import queue
from app.store.events import thin_out
from app.store.idempotency import forget_keys_before
from app.store.jobs import running_jobs
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
_ENVELOPE = frozenset({"type", "job_id", "attempt"})


class JobQueue:
    """The store's queue for one server process. Its methods block."""

    def __init__(
        self,
        store: Store,
        bell: Bell,
        presence: Presence,
        *,
        keep_progress_events: int = 500,
        clock: Clock = time.time,
    ) -> None:
        self._store = store
        self._bell = bell
        self._presence = presence
        self._keep = keep_progress_events
        self._clock = clock

    def claim(self, executor: str) -> Job | None:
        """Begin an attempt of the next job for an executor; None where none can begin."""
        with self._store.read() as connection:
            if queue.next_job(connection, executor) is None:
                return None  # the usual answer, without the writers' lock
        with self._store.write() as connection:
            job = queue.claim(connection, executor, self._presence.server, self._clock())
        if job is not None:
            self._bell.ring()
        return job

    def renew(self, claims: Iterable[tuple[int, int]]) -> tuple[list[Job], list[tuple[int, int]]]:
        """Extend the leases of attempts, given as (job, attempt).

        Returns:
            The jobs still claimed, with what is requested of them; and the attempts that are void.
        """
        kept: list[Job] = []
        void: list[tuple[int, int]] = []
        with self._store.write() as connection:
            for job_id, attempt in claims:
                try:
                    kept.append(queue.renew(connection, job_id, attempt, self._clock()))
                except (Superseded, NotFound):
                    void.append((job_id, attempt))
        return kept, void

    def requests(self, job_ids: Iterable[int]) -> list[Job]:
        """Return those of these jobs that are asked to pause or to be cancelled."""
        with self._store.read() as connection:
            wanted = set(job_ids)
            return [job for job in running_jobs(connection) if job.id in wanted and job.requested]

    def record(self, message: ExecutorEvent) -> Job:
        """Enter what an attempt reports; return the job after it.

        Raises:
            Superseded: the attempt does not hold the job any more; what it says is void.
            NotFound: the job is gone with its module.
        """
        with self._store.write() as connection:
            job = self._enter(connection, message)
        self._bell.ring()
        return job

    def release(self, job_id: int, attempt: int, reason: str) -> Job | None:
        """End an attempt in good order; None where it did not hold its job any more."""
        return self._end(
            lambda connection, now: queue.release(connection, job_id, attempt, reason, now)
        )

    def lose(self, job_id: int, attempt: int, reason: str) -> Job | None:
        """End an attempt that died; None where it did not hold its job any more."""
        job = self._end(
            lambda connection, now: queue.lose(connection, job_id, attempt, reason, now)
        )
        if job is not None:
            _log.warning("job %d lost attempt %d (%s), is %s", job_id, attempt, reason, job.status)
        return job

    def fail(self, job_id: int, attempt: int, code: str, message: str) -> Job | None:
        """End an attempt and its job by an error; None where it did not hold its job any more."""
        error = {"code": code, "message": message, "field": None}
        return self._end(
            lambda connection, now: queue.fail(connection, job_id, attempt, error, now)
        )

    def recover(self) -> list[Job]:
        """Take running jobs away from servers that are dead or have let their leases expire.

        To be called at the start, when all jobs this disk's dead servers held are found at once,
        and again and again.
        """
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

    def tidy(self, job_ids: Iterable[int]) -> None:
        """Keep only a job's newest progress reports, log lines, statistics; forget old keys."""
        for job_id in job_ids:
            with self._store.write() as connection:
                thin_out(connection, job_id, JobEvent.PROGRESS, self._keep)
                thin_out(connection, job_id, JobEvent.LOG, self._keep)
                thin_out(connection, job_id, JobEvent.STATISTICS, self._keep)
        with self._store.write() as connection:
            forget_keys_before(connection, self._clock() - _KEY_LIFE_SECONDS)

    def _end(self, change: Callable[[Connection, float], Job]) -> Job | None:
        try:
            with self._store.write() as connection:
                job = change(connection, self._clock())
        except (Superseded, NotFound):
            return None
        self._bell.ring()
        return job

    def _enter(self, connection: Connection, message: ExecutorEvent) -> Job:
        now = self._clock()
        job_id, attempt = message.job_id, message.attempt
        match message:
            case JobDone():
                return queue.succeed(connection, job_id, attempt, message.result, now)
            case JobFailed():
                error = {"code": message.code, "message": message.message, "field": message.field}
                return queue.fail(connection, job_id, attempt, error, now)
            case JobCancelled():
                return queue.cancel(connection, job_id, attempt, now)
            case JobPaused():
                # One that nobody asked of the job is this server's own, when it stops.
                return queue.release(connection, job_id, attempt, "stopped in good order", now)
            case JobPrepared():
                return queue.renew(connection, job_id, attempt, now)
            case _:
                plain = to_plain(message)
                data = {name: plain[name] for name in plain if name not in _ENVELOPE}
                return queue.record(connection, job_id, attempt, _REPORTS[type(message)], data, now)
