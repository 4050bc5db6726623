"""The clients' side of the job queue: submit, query, follow, pause, resume, cancel and retry."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, TypeVar

from sqlalchemy import Connection

from app.domain.events import EventRow, EventType
from app.domain.job import TERMINAL, Job, JobEvent, JobKind, JobStatus
from app.domain.job_estimates import remaining_seconds
from app.domain.moment import Moment
from app.domain.named_arrays import NamedArray
from app.errors.tree import Invalid, NotFound, ServiceError
from app.files.histogram_series import Histograms
from app.files.metric_series import Series
from app.services.access.preconditions import check_etag, is_expected
from app.services.jobs.submissions import (
    JobDefaults,
    JobLimits,
    Submission,
    parts_of,
    read_submission,
    submit_in,
)
from app.services.operations.batcher import Batcher
from app.services.operations.followers import Followers
from app.services.operations.notifier import Notifiers
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

Outcome = TypeVar("Outcome", Job, Job | ServiceError)

Clock: TypeAlias = Callable[[], Moment]

_EVENTS_AT_ONCE = 500
_REMOVED_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class JobOutlook:
    """A job's place in the queue and estimated remaining time.

    Attributes:
        queue_position: its position in its executor's queue, from 1; None unless queued.
        eta_seconds: estimated seconds until it ends; for a queued job, from when it starts. None
            if that is not known.
    """

    queue_position: int | None = None
    eta_seconds: float | None = None


class FilesOfJobs(Protocol):
    """The files of jobs, as ``job_files.JobFiles`` provides them."""

    def series(self, job: Job, name: str, points: int) -> Series:
        """Return one metric over all batches."""
        ...

    def histograms(self, job: Job, array: NamedArray | None, points: int) -> Histograms:
        """Return the histograms of a weight or gradient over time."""
        ...

    def discard(self, job: Job) -> None:
        """Remove the files of a deleted job."""
        ...


class JobService:
    """What clients can do with jobs. All methods but the coroutines and generators block."""

    def __init__(
        self,
        store: Store,
        notifiers: Notifiers,
        defaults: JobDefaults | None = None,
        clock: Clock | None = None,
        files: FilesOfJobs | None = None,
    ) -> None:
        """Prepare.

        Args:
            clock: None for the clock of the store.
            files: the files of jobs; None if they have none.
        """
        self._files = files
        self._store = store
        self._notifiers = notifiers
        self._defaults = defaults or JobDefaults()
        self._clock = clock or store.clock
        self._followers = Followers(store, notifiers.events)
        self._submitting = Batcher(self.submit_all)

    def submit(
        self,
        module: str,
        kind: JobKind,
        params: Mapping[str, Any],
        limits: JobLimits | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Queue a job and return it, or the one submitted earlier with the same idempotency key.

        Args:
            module: name of its module.
            kind: what to do.
            params: see ``app.domain.job_params``.
            limits: its priority, retries and time limits.
            idempotency_key: chosen by the client, so that a repeated request creates only one job.

        Raises:
            NotFound: no such module or dataset.
            Invalid: parameters have invalid values; lists all of them.
            WrongStage: the module has no parameters to score or predict with.
            IdempotencyMismatch: the key was used for another request.
        """
        asked = read_submission(module, kind, params, limits, idempotency_key)
        (outcome,) = self.submit_all([asked])
        if isinstance(outcome, Job):
            return outcome
        raise outcome

    async def submit_among_others(self, submission: Submission) -> Job:
        """Queue a job, batched with others that are submitted at the same time; see ``submit``."""
        return await self._submitting(submission)

    def submit_all(self, submissions: Sequence[Submission]) -> list[Job | ServiceError]:
        """Queue jobs, batched to save disk syncs; a refused job does not affect the others.

        Returns:
            For each submission, its job or the error that ``submit`` would raise.
        """
        outcomes: dict[int, Job | ServiceError] = {}
        for part in parts_of(submissions):
            asked = [submissions[one] for one in part]
            with self._store.write() as connection:
                made = submit_in(connection, asked, self._defaults, self._clock())
            outcomes.update(zip(part, map(self._shown, made), strict=True))
        self._notifiers.events.notify()
        self._notifiers.work.notify()
        return [outcomes[one] for one in range(len(submissions))]

    def get(self, job_id: int) -> Job:
        """Return a job; raise NotFound."""
        with self._store.read() as connection:
            return self._shown(get_job(connection, job_id))

    def list_jobs(
        self, wanted: JobFilter | None = None, cursor: str | None = None, limit: int = 50
    ) -> Page[Job]:
        """Return a page of jobs, newest first; raise Invalid for a bad cursor or limit."""
        before = None if cursor is None else _parse_cursor(cursor)
        with self._store.read() as connection:
            page = list_jobs(connection, wanted or JobFilter(), before, check_limit(limit))
        return replace(page, items=tuple(map(self._shown, page.items)))

    def outlook(self, jobs: Sequence[Job]) -> list[JobOutlook]:
        """Return the outlook of each job."""
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
        """Delete a finished job with its events and files.

        Raises:
            NotFound: there is no such job.
            InUse: it is not finished.
        """
        # The row first, so that nobody is shown a job whose files are gone.
        with self._store.write() as connection:
            _check_etag(connection, job_id)
            job = delete_job(connection, job_id)
        self._discard_files(job)
        self._notifiers.events.notify()

    def remove_surplus(self, keep: int | None, keep_seconds: float | None) -> int:
        """Delete surplus and expired finished jobs; return how many.

        Args:
            keep: how many finished jobs to keep; None keeps all.
            keep_seconds: how long to keep each after its end; None for no limit.
        """
        before = None if keep_seconds is None else self._clock().earlier - keep_seconds
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
        """Delete all but the newest events of modules and executors.

        Args:
            keep: how many to keep.
        """
        with self._store.write() as connection:
            keep_server_events(connection, keep)

    def count(self) -> dict[JobStatus, int]:
        """Return the number of jobs by status."""
        with self._store.read() as connection:
            return count_jobs(connection)

    def cancel(self, job_id: int) -> Job:
        """Cancel a job; a running one stops after its current batch."""
        return self._ask(queue.request_cancel, job_id)

    def pause(self, job_id: int) -> Job:
        """Pause a job; a running one saves a checkpoint first."""
        return self._ask(queue.request_pause, job_id)

    def resume(self, job_id: int) -> Job:
        """Queue a paused job, to resume from its newest checkpoint; or withdraw a pending pause."""
        return self._ask(queue.resume, job_id)

    def retry(self, job_id: int) -> Job:
        """Queue a failed or cancelled job again; it resumes from its newest checkpoint."""
        return self._ask(queue.retry, job_id)

    def events(
        self,
        job_id: int | None = None,
        after: int = 0,
        limit: int = _EVENTS_AT_ONCE,
        types: Collection[EventType] | None = None,
    ) -> list[EventRow]:
        """Return the events of one job or of everything after an id, oldest first; raise
        NotFound."""
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
        """Return the histograms of an array that a fit's monitor took; raise NotFound."""
        job = self.get(job_id)
        if self._files is None:
            raise NotFound("histograms", job_id)
        return self._files.histograms(job, array, points)

    def newest_event_id(self) -> int:
        """Return the id of the newest event, after which ``follow`` yields only new ones."""
        with self._store.read() as connection:
            return newest_event_id(connection)

    def follow(
        self, job_id: int | None = None, after: int = 0
    ) -> AsyncGenerator[EventRow | None, None]:
        """Yield the events of one job or of everything after an id, as they occur.

        The stream of a job ends with its last event, and every stream at ``end_streams``. None is
        yielded after all past events, and as a keepalive when nothing happens for a while, so that
        a caller can detect that its client has disconnected.

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
        """Yield encoded events as ``follow`` does; each is encoded once for all followers.

        Args:
            wanted: yield only events that pass this filter.
        """
        return self._followers.stream(job_id, after, encode, wanted)

    def end_streams(self) -> None:
        """End all streams for good, because the server stops."""
        self._followers.end()

    def _discard_files(self, job: Job) -> None:
        if self._files is not None:
            self._files.discard(job)

    def _ask(self, change: Callable[[Connection, int, Moment], Job], job_id: int) -> Job:
        with self._store.write() as connection:
            _check_etag(connection, job_id)
            job = change(connection, job_id, self._clock())
        self._notifiers.notify()
        return self._shown(job)

    def _shown(self, outcome: Outcome) -> Outcome:
        """Return a job with its limits in the time that people read; an error as it is."""
        lead = self._clock().lead
        if not lead or not isinstance(outcome, Job) or outcome.status in TERMINAL:
            return outcome
        limits = {"deadline_at": outcome.deadline_at, "not_before": outcome.not_before}
        ahead = {name: None if one is None else one + lead for name, one in limits.items()}
        return outcome.evolve(**ahead)


def _check_etag(connection: Connection, job_id: int) -> None:
    if is_expected():
        check_etag(f"job {job_id}", get_job(connection, job_id, lock=True).etag)


def _parse_cursor(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise Invalid("cursor", cursor, "next_cursor of the page before")
    return int(cursor)
