"""Jobs as clients see them: submit, look, follow, and ask to pause, resume, cancel or retry."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from sqlalchemy import Connection

from app.domain.codec import canonical_json, to_plain
from app.domain.dataset import DatasetRecord
from app.domain.job import TERMINAL, EventRow, Job, JobEvent, JobKind, JobStatus
from app.domain.job_estimates import remaining_seconds
from app.domain.job_params import (
    DatasetSource,
    FitParams,
    JobParams,
    dataset_names,
    parse_job_params,
)
from app.domain.module import ModuleRecord, require
from app.errors import Invalid, NotFound, ParamsLost
from app.files.job_inputs import check_arrays, check_named, sources_of
from app.files.metric_series import Series
from app.services.bell import Bells
from app.services.followers import Followers
from app.store import queue
from app.store.checkpoints import indexed_tags
from app.store.datasets import get_datasets
from app.store.events import events_after, newest_event_id
from app.store.idempotency import recall, remember
from app.store.jobs import (
    JobFilter,
    count_jobs,
    delete_job,
    get_job,
    has_unfinished,
    insert_job,
    list_jobs,
    queue_positions,
    surplus_jobs,
    typical_seconds,
)
from app.store.modules import module_outline
from app.store.pages import Page, check_limit, page_of
from app.store.store import Store

__all__ = [
    "Clock",
    "JobDefaults",
    "JobFilter",
    "JobLimits",
    "JobOutlook",
    "JobService",
    "Series",
]

Clock: TypeAlias = Callable[[], float]

_SCOPE = "jobs"
_LARGEST_PRIORITY = 1000
_MOST_RETRIES = 100
_LONGEST_SECONDS = 10 * 366 * 86400.0
_EVENTS_AT_ONCE = 500
_REMOVED_AT_ONCE = 100
_CALLS = {JobKind.SCORE: "score", JobKind.PREDICT: "predict_dataset"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """How a job is queued and for how long it is tried.

    Attributes:
        priority: smaller runs earlier, -1000 to 1000.
        max_retries: how often it is tried again by itself after a failure that may pass.
        deadline_seconds: from now, it fails when it has not ended by then; None: any time.
        timeout_seconds: it fails when it has run for so long; None: any time.
    """

    priority: int = 0
    max_retries: int = 0
    deadline_seconds: float | None = None
    timeout_seconds: float | None = None

    def check(self) -> None:
        """Raise Invalid for a value that cannot be."""
        if abs(self.priority) > _LARGEST_PRIORITY:
            expected = f"-{_LARGEST_PRIORITY} to {_LARGEST_PRIORITY}"
            raise Invalid("priority", self.priority, expected)
        if not 0 <= self.max_retries <= _MOST_RETRIES:
            raise Invalid("max_retries", self.max_retries, f"0 to {_MOST_RETRIES}")
        for name in ("deadline_seconds", "timeout_seconds"):
            seconds = getattr(self, name)
            if seconds is not None and not 0 < seconds < _LONGEST_SECONDS:
                raise Invalid(name, seconds, "a positive number of seconds, at most ten years")


@dataclass(frozen=True, slots=True)
class JobOutlook:
    """What is known of a job's future.

    Attributes:
        queue_position: its place in its executor's queue, from 1; None unless queued.
        eta_seconds: in how many seconds it is likely to end; for a queued job counted from its
            turn. None where that is not known.
    """

    queue_position: int | None = None
    eta_seconds: float | None = None


class FilesOfJobs(Protocol):
    """What lies on the disk for jobs; ``job_files`` has it."""

    def series(self, job: Job, name: str, points: int) -> Series:
        """Return one metric over all batches."""
        ...

    def discard(self, job: Job) -> None:
        """Remove all of a job that was deleted."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDefaults:
    """What a job gets that its client does not choose."""

    lease_seconds: float = 30.0
    max_attempts: int = 3


class JobService:
    """All that clients can do with jobs. Its methods block, but for ``follow``."""

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
            files: of the jobs; None where they have none.
        """
        self._files = files
        self._store = store
        self._bells = bells
        self._defaults = defaults or JobDefaults()
        self._clock = clock
        self._followers = Followers(store, bells.events)

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
        checked = parse_job_params(kind, params)
        limits = limits or JobLimits()
        limits.check()
        plain = to_plain(checked)
        fingerprint = _fingerprint(module, kind.value, plain, *_told(limits))
        with self._store.write() as connection:
            if idempotency_key is not None:
                earlier = recall(connection, _SCOPE, idempotency_key, fingerprint)
                if earlier is not None:
                    return get_job(connection, int(earlier))
            record = module_outline(connection, module, lock=True)
            _check_possible(connection, record, kind, checked)
            datasets = get_datasets(connection, dataset_names(checked))
            _check_inputs(record, checked, datasets)
            job = Job(
                kind=kind,
                module=module,
                params=plain,
                priority=limits.priority,
                max_retries=limits.max_retries,
                deadline_seconds=limits.deadline_seconds,
                deadline_at=_deadline(limits, self._clock()),
                timeout_seconds=limits.timeout_seconds,
                lease_seconds=self._defaults.lease_seconds,
                max_attempts=self._defaults.max_attempts,
            )
            now = self._clock()
            job = insert_job(connection, job, [dataset.id for dataset in datasets], now, record.id)
            if idempotency_key is not None:
                remember(connection, _SCOPE, idempotency_key, fingerprint, str(job.id), now)
        self._bells.events.ring()
        self._bells.work.ring()
        return job

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
        kinds: Collection[JobEvent] | None = None,
    ) -> list[EventRow]:
        """Return events after an id, oldest first, of one job or of all; raise NotFound."""
        with self._store.read() as connection:
            if job_id is not None:
                get_job(connection, job_id)
            return events_after(connection, after, limit, job_id, kinds)

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

    def newest_event_id(self) -> int:
        """Return the id of the newest event of all: where to follow from, to see only new ones."""
        with self._store.read() as connection:
            return newest_event_id(connection)

    def follow(
        self, job_id: int | None = None, after: int = 0
    ) -> AsyncGenerator[EventRow | None, None]:
        """Yield events after an id as they come, of one job or of all.

        Of a job it ends with the job's last event, and always with ``end_streams``. None comes when
        nothing did for a while, so that whoever sends this on can tell whether its reader is still
        there.

        Raises:
            NotFound: there is no such job.
        """
        return self._followers.follow(job_id, after)

    def stream(
        self, job_id: int | None, after: int, encode: Callable[[EventRow], bytes]
    ) -> AsyncGenerator[bytes | None, None]:
        """Yield events as ``follow`` does, each encoded once for all who follow."""
        return self._followers.stream(job_id, after, encode)

    def end_streams(self) -> None:
        """End all that follow, at once and for good: the server stops."""
        self._followers.end()

    def _discard_files(self, job: Job) -> None:
        if self._files is not None:
            self._files.discard(job)

    def _ask(self, change: Callable[[Connection, int, float], Job], job_id: int) -> Job:
        with self._store.write() as connection:
            job = change(connection, job_id, self._clock())
        self._bells.ring()
        return job


def _parse_cursor(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise Invalid("cursor", cursor, "next_cursor of the page before")
    return int(cursor)


def _check_possible(
    connection: Connection, module: ModuleRecord, kind: JobKind, params: JobParams
) -> None:
    """Refuse now what could only fail later, unless a fit before it in the queue changes that."""
    if has_unfinished(connection, module.name, [JobKind.FIT]):
        return
    if module.lost:
        raise ParamsLost(module.name, [str(tag) for tag in indexed_tags(connection, module.name)])
    if isinstance(params, FitParams):
        if params.optimizer is None and module.optimizer is None:
            raise Invalid(
                "optimizer",
                None,
                "an optimizer, for the module has none",
                'for example {"name": "sgd", "options": {"learning_rate": 0.1}}',
            )
    elif module.params is None:
        require(module, _CALLS[kind])


def _check_inputs(
    module: ModuleRecord, params: JobParams, datasets: Sequence[DatasetRecord]
) -> None:
    """Refuse arrays that the datasets do not have; labels may be none of the symbol's inputs."""
    check_named(params, module)
    records = {record.name: record for record in datasets}
    sources: dict[str, DatasetSource] = {"": params}
    if isinstance(params, FitParams) and params.validation is not None:
        sources["validation."] = params.validation
    for prefix, source in sources.items():
        names = [*module.data_names, *source.inputs]
        check_arrays(sources_of(source, names), records[source.dataset], prefix)


def _deadline(limits: JobLimits, now: float) -> float | None:
    return None if limits.deadline_seconds is None else now + limits.deadline_seconds


def _told(limits: JobLimits) -> list[Any]:
    """Return what makes two requests differ; as before where only the priority is said."""
    more = [limits.max_retries, limits.deadline_seconds, limits.timeout_seconds]
    return [limits.priority, *more] if any(more) else [limits.priority]


def _fingerprint(*parts: Any) -> str:
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()
