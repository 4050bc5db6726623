"""Jobs as clients see them: submit, look, follow, and ask to pause, resume, cancel or retry."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from sqlalchemy import Connection

from app.domain.events import EventRow, EventType
from app.domain.job import TERMINAL, Job, JobEvent, JobKind, JobStatus
from app.domain.job_estimates import remaining_seconds
from app.domain.named_arrays import NamedArray
from app.errors import Invalid, NotFound, ServiceError
from app.files.histogram_series import Histograms
from app.files.metric_series import Series
from app.services.bell import Bells
from app.services.followers import Followers
from app.services.grouped import Grouped
from app.services.preconditions import check_etag, is_expected
from app.services.submissions import (
    JobDefaults,
    JobLimits,
    Submission,
    parts_of,
    read_submission,
    submit_in,
)
from app.store import queue
from app.store.events import events_after, keep_server_events, newest_event_id
from app.store.filters import EventFilter, JobFilter
from app.store.jobs import (
    count_jobs,
    delete_job,
    get_job,
    list_jobs,
    queue_positions,
    surplus_jobs,
    typical_seconds,
)
from app.store.pages import Page, check_limit, page_of
from app.store.store import Store

__all__ = [
    "Clock",
    "EventFilter",
    "Histograms",
    "JobFilter",
    "JobOutlook",
    "JobService",
    "Series",
]

Clock: TypeAlias = Callable[[], float]

_EVENTS_AT_ONCE = 500
_REMOVED_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class JobOutlook:
    """What is known of a job's future.

    Attributes:
        queue_position: its place in its executor's queue, from 1; None unless queued.
        eta_seconds: in how many seconds it is likely to end; for a queued job counted from its
            turn. None if that is not known.
    """

    queue_position: int | None = None
    eta_seconds: float | None = None


class FilesOfJobs(Protocol):
    """What lies on the disk for jobs; ``job_files`` has it."""

    def series(self, job: Job, name: str, points: int) -> Series:
        """Return one metric over all batches."""
        ...

    def histograms(self, job: Job, array: NamedArray | None, points: int) -> Histograms:
        """Return the histograms of a weight or gradient over time."""
        ...

    def discard(self, job: Job) -> None:
        """Remove all of a job that was deleted."""
        ...


class JobService:
    """All that clients can do with jobs. Its methods block, but for those to be awaited."""

    def __init__(
        self,
        store: Store,
        bells: Bells,
        defaults: JobDefaults | None = None,
        clock: Clock = time.time,
        files: FilesOfJobs | None = None,
    ) -> None:
        """Prepare.

        Args:
            files: of the jobs; None if they have none.
        """
        self._files = files
        self._store = store
        self._bells = bells
        self._defaults = defaults or JobDefaults()
        self._clock = clock
        self._followers = Followers(store, bells.events)
        self._submitting = Grouped(self.submit_all)

    def submit(
        self,
        module: str,
        kind: JobKind,
        params: Mapping[str, Any],
        limits: JobLimits | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Queue a job and return it; one submitted before under the same key is returned again.

        Args:
            module: name of its module.
            kind: what to do.
            params: see ``app.domain.job_params``.
            limits: its priority, retries and times.
            idempotency_key: of the client, so that a repeated request makes one job.

        Raises:
            NotFound: no such module or dataset.
            Invalid: a parameter has a value it cannot take; names each.
            WrongStage: the module has no parameters to score or predict with.
            IdempotencyMismatch: the key was used for another request.
        """
        asked = read_submission(module, kind, params, limits, idempotency_key)
        (outcome,) = self.submit_all([asked])
        if isinstance(outcome, Job):
            return outcome
        raise outcome

    async def submit_among_others(self, submission: Submission) -> Job:
        """Queue a job together with those that are submitted at the same time; see ``submit``."""
        return await self._submitting(submission)

    def submit_all(self, submissions: Sequence[Submission]) -> list[Job | ServiceError]:
        """Queue jobs, with one wait for the disk; what refuses one concerns none of the others.

        Returns:
            For each submission its job, or why it is refused; see ``submit``.
        """
        outcomes: dict[int, Job | ServiceError] = {}
        for part in parts_of(submissions):
            asked = [submissions[one] for one in part]
            with self._store.write() as connection:
                made = submit_in(connection, asked, self._defaults, self._clock())
            outcomes.update(zip(part, made, strict=True))
        self._bells.events.ring()
        self._bells.work.ring()
        return [outcomes[one] for one in range(len(submissions))]

    def get(self, job_id: int) -> Job:
        """Return a job; raise NotFound."""
        with self._store.read() as connection:
            return get_job(connection, job_id)

    def list_jobs(
        self, wanted: JobFilter | None = None, cursor: str | None = None, limit: int = 50
    ) -> Page[Job]:
        """Return a page of jobs, newest first; raise Invalid for a bad cursor or limit."""
        before = None if cursor is None else _parse_cursor(cursor)
        with self._store.read() as connection:
            return list_jobs(connection, wanted or JobFilter(), before, check_limit(limit))

    def outlook(self, jobs: Sequence[Job]) -> list[JobOutlook]:
        """Return what is known of the future of jobs."""
        now = self._clock()
        unfinished = [job for job in jobs if job.status not in TERMINAL]
        if not unfinished:
            return [JobOutlook() for _ in jobs]
        with self._store.read() as connection:
            queued = [job.id for job in unfinished if job.status is JobStatus.QUEUED]
            places = queue_positions(connection, queued)
            kinds = {(job.module, job.kind): job for job in unfinished}
            typical = {kind: typical_seconds(connection, job) for kind, job in kinds.items()}
        return [
            JobOutlook(
                places.get(job.id),
                remaining_seconds(job, now, typical.get((job.module, job.kind))),
            )
            for job in jobs
        ]

    def delete(self, job_id: int) -> None:
        """Remove a finished job with its events and files.

        Raises:
            NotFound: there is no such job.
            InUse: it is not finished.
        """
        with self._store.write() as connection:
            _check_etag(connection, job_id)
            job = delete_job(connection, job_id)
        self._discard_files(job)
        self._bells.events.ring()

    def remove_surplus(self, keep: int | None, keep_seconds: float | None) -> int:
        """Remove finished jobs that are too many or too old; return how many.

        Args:
            keep: how many finished jobs are kept; None keeps all.
            keep_seconds: how long after its end each is kept; None keeps all.
        """
        before = None if keep_seconds is None else self._clock() - keep_seconds
        removed = 0
        while True:
            with self._store.read() as connection:
                surplus = surplus_jobs(connection, keep, before, _REMOVED_AT_ONCE)
            if not surplus:
                return removed
            with self._store.write() as connection:
                gone = [delete_job(connection, job_id) for job_id in surplus]
            for job in gone:
                self._discard_files(job)
            removed += len(gone)

    def forget_events(self, keep: int) -> None:
        """Remove all but the newest events of modules and executors."""
        with self._store.write() as connection:
            keep_server_events(connection, keep)

    def count(self) -> dict[JobStatus, int]:
        """Return the number of jobs by status."""
        with self._store.read() as connection:
            return count_jobs(connection)

    def cancel(self, job_id: int) -> Job:
        """Cancel a job; one that runs stops after the batch in work."""
        return self._ask(queue.request_cancel, job_id)

    def pause(self, job_id: int) -> Job:
        """Pause a job; one that runs saves a checkpoint first."""
        return self._ask(queue.request_pause, job_id)

    def resume(self, job_id: int) -> Job:
        """Queue a paused job again, from its newest checkpoint; withdraw a pause not done yet."""
        return self._ask(queue.resume, job_id)

    def retry(self, job_id: int) -> Job:
        """Queue a failed or cancelled job again; it goes on from its newest checkpoint."""
        return self._ask(queue.retry, job_id)

    def events(
        self,
        job_id: int | None = None,
        after: int = 0,
        limit: int = _EVENTS_AT_ONCE,
        types: Collection[EventType] | None = None,
    ) -> list[EventRow]:
        """Return events after an id, oldest first, of one job or of all; raise NotFound."""
        with self._store.read() as connection:
            if job_id is not None:
                get_job(connection, job_id)
            return events_after(connection, after, limit, job_id, types)

    def metrics(self, job_id: int, cursor: str | None = None, limit: int = 200) -> Page[EventRow]:
        """Return a page of a job's metrics, oldest first; raise NotFound or Invalid."""
        after = 0 if cursor is None else _parse_cursor(cursor)
        rows = self.events(job_id, after, check_limit(limit) + 1, [JobEvent.METRIC])
        return page_of(rows, limit, lambda row: row.id)

    def series(self, job_id: int, name: str, points: int) -> Series:
        """Return one metric over all batches of a fit, down-sampled; raise NotFound."""
        job = self.get(job_id)
        if self._files is None:
            raise NotFound("series", name)
        return self._files.series(job, name, points)

    def histograms(self, job_id: int, array: NamedArray | None, points: int) -> Histograms:
        """Return those that a fit with a monitor took of an array; raise NotFound."""
        job = self.get(job_id)
        if self._files is None:
            raise NotFound("histograms", job_id)
        return self._files.histograms(job, array, points)

    def newest_event_id(self) -> int:
        """Return the id of the newest event of all: where to follow from, to see only new ones."""
        with self._store.read() as connection:
            return newest_event_id(connection)

    def follow(
        self, job_id: int | None = None, after: int = 0
    ) -> AsyncGenerator[EventRow | None, None]:
        """Yield events after an id as they come, of one job or of all.

        Of a job it ends with the job's last event, and always with ``end_streams``. None comes when
        all there was has been told, and when nothing came for a while, so that whoever sends this
        on can tell whether its reader is still there.

        Raises:
            NotFound: there is no such job.
        """
        return self._followers.follow(job_id, after)

    def stream(
        self,
        job_id: int | None,
        after: int,
        encode: Callable[[EventRow], bytes],
        wanted: EventFilter | None = None,
    ) -> AsyncGenerator[bytes | None, None]:
        """Yield events as ``follow`` does, each encoded once for all who follow.

        Args:
            wanted: only those that pass this filter.
        """
        return self._followers.stream(job_id, after, encode, wanted)

    def end_streams(self) -> None:
        """End all that follow, at once and for good: the server stops."""
        self._followers.end()

    def _discard_files(self, job: Job) -> None:
        if self._files is not None:
            self._files.discard(job)

    def _ask(self, change: Callable[[Connection, int, float], Job], job_id: int) -> Job:
        with self._store.write() as connection:
            _check_etag(connection, job_id)
            job = change(connection, job_id, self._clock())
        self._bells.ring()
        return job


def _check_etag(connection: Connection, job_id: int) -> None:
    if is_expected():
        check_etag(f"job {job_id}", get_job(connection, job_id, lock=True).etag)


def _parse_cursor(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise Invalid("cursor", cursor, "next_cursor of the page before")
    return int(cursor)
