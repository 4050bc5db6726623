"""The server's side of an attempt of a job: builds its start message and handles its reports."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from app.domain.checkpoint import CheckpointTag
from app.domain.dataset import DatasetKind, DatasetRecord
from app.domain.job import Job, JobKind
from app.domain.job_params import FitParams, PredictParams, dataset_names, parse_job_params
from app.domain.module import ModuleRecord
from app.errors.http import error_code
from app.errors.tree import NotFound, ServiceError, StorageFull, Unavailable, refined
from app.files.metric_series import series_path
from app.link.job_messages import (
    DatasetFile,
    ExecutorEvent,
    JobCancelled,
    JobCheckpoint,
    JobDone,
    JobFailed,
    JobPaused,
    JobPrepared,
    JobStart,
)
from app.services.jobs.job_queue import JobQueue
from app.services.jobs.resume_points import ResumePoints
from app.services.modules.checkpoints import CheckpointService
from app.services.modules.datasets import DatasetService
from app.services.modules.modules import ModuleService

__all__ = ["LAST", "JobAttempts"]

_log = logging.getLogger(__name__)

LAST = JobDone | JobFailed | JobPaused | JobCancelled
"""The messages that end an attempt."""


class JobAttempts:
    """Prepares attempts and stores their reports. Its methods block."""

    def __init__(
        self,
        queue: JobQueue,
        modules: ModuleService,
        datasets: DatasetService,
        checkpoints: CheckpointService,
        resume_points: ResumePoints,
        on_prepared: Callable[[ModuleRecord], object] = lambda record: None,
    ) -> None:
        """Prepare.

        Args:
            on_prepared: called, from any thread, with the record of a module that a fit has bound.
        """
        self._queue = queue
        self._modules = modules
        self._datasets = datasets
        self._checkpoints = checkpoints
        self._resume_points = resume_points
        self._on_prepared = on_prepared

    def claim(self, executor: str, count: int) -> list[tuple[Job, JobStart | None]]:
        """Claim up to ``count`` of the next jobs for an executor; an attempt of each begins.

        Returns:
            Each job with its start message, or None if that is slow to build or failed; then call
            ``start_message``.
        """
        claimed = self._queue.claim(executor, count)
        try:
            return list(zip(claimed, self._quick_starts(claimed), strict=True))
        except ServiceError:  # they are claimed already; start_message raises it again
            return [(job, None) for job in claimed]

    def _quick_starts(self, claimed: Sequence[Job]) -> list[JobStart | None]:
        scores = [job for job in claimed if job.kind is JobKind.SCORE]
        records = self._datasets.find({name for job in scores for name in _names_of(job)})
        starts: dict[int, JobStart] = {}
        for job in scores:
            read = [records[name] for name in _names_of(job) if name in records]
            # Whether an operator's file is unchanged may take reading all of it.
            if len(read) == len(_names_of(job)) and all(one.path is None for one in read):
                starts[job.id] = self._start(job, read)
        return [starts.get(job.id) for job in claimed]

    def start_message(self, job: Job) -> JobStart:
        """Return what an executor needs to start this attempt, or to resume from a checkpoint.

        Raises:
            ServiceError: the job cannot start; a retry helps only for codes in
                ``job_moves.TRANSIENT``.
        """
        start = self._start(job, [self._datasets.get(name) for name in _names_of(job)])
        if job.kind is JobKind.PREDICT:
            return replace(start, output_path=str(self._output_path(job)))
        if job.kind is not JobKind.FIT:
            return start
        warnings: list[str] = []
        resume = self._resume_points.begin_attempt(job, warnings.append)
        for warning in warnings:
            _log.warning("job %d: %s", job.id, warning)
        module = self._modules.get(job.module)
        base = self._checkpoints.base(module)
        return replace(
            start,
            resume=None if resume is None else str(resume),
            warnings=tuple(warnings),
            base=None if base is None else str(base),
            series_path=str(self._series_path(job)),
            begin_epoch=job.begin_epoch,
            init=module.init,
            optimizer=module.optimizer,
        )

    def _start(self, job: Job, records: Sequence[DatasetRecord]) -> JobStart:
        """Return the part of a start message that jobs of all kinds need."""
        return JobStart(
            job_id=job.id,
            attempt=job.attempt,
            kind=job.kind,
            params=job.params,
            module=job.module,
            datasets={
                record.name: DatasetFile(record=record, path=str(self._datasets.path(record)))
                for record in records
            },
            checkpoint_root=str(self._checkpoints.root(job.module)),
        )

    def prepare(self, message: ExecutorEvent, job: Job | None) -> ExecutorEvent:
        """Do what must be done before a message is stored; return the message to store.

        That is an error instead of the end of a predict job whose output cannot become a dataset.

        Args:
            job: the job of the attempt, as it was claimed; None if the attempt is void.

        Raises:
            Unavailable, StorageFull: the store is unavailable; retry later.
        """
        if job is None or job.kind is JobKind.SCORE:
            return message
        if isinstance(message, JobFailed | JobCancelled) and message.is_unsaved:
            self._mark_unsaved(job.module)
        if not isinstance(message, JobDone):
            return message
        # An attempt that no longer has its job must not publish what it made. Renewed, it keeps the
        # job while that is done.
        _, void = self._queue.renew([(message.job_id, message.attempt)])
        if void:
            return message
        if job.kind is JobKind.PREDICT:
            return self._take_output(message, job)
        if (tag := message.result.get("checkpoint")) is not None:
            self._resume_points.end_attempt(job, CheckpointTag.parse(tag))
        return message

    def _mark_unsaved(self, module: str) -> None:
        """Record that the module has unsaved parameters, before its job is reported as over."""
        try:
            self._modules.mark_unsaved(module)
        except NotFound:
            _log.info("module %s was deleted meanwhile", module)

    def enter(self, messages: Sequence[ExecutorEvent]) -> list[Job | None]:
        """Store the reports of attempts, all or none.

        Returns:
            The job after each message; None if the attempt no longer has it.

        Raises:
            Unavailable, StorageFull: the store is unavailable; retry later.
        """
        outcomes = self._queue.record(messages)
        for message, outcome in zip(messages, outcomes, strict=True):
            if not isinstance(outcome, Job):
                _log.warning("dropped %s of an executor: %s", message.type, outcome)
        return [one if isinstance(one, Job) else None for one in outcomes]

    def follow_up(self, job: Job, message: ExecutorEvent) -> None:
        """Do what follows from a stored message. This is idempotent.

        Raises:
            Unavailable, StorageFull: the store is unavailable; retry later.
        """
        try:
            self._follow_up(job, message)
        except (Unavailable, StorageFull):
            raise
        except ServiceError as error:
            _log.error("job %d: after %s: %s", job.id, message.type, error)

    def _follow_up(self, job: Job, message: ExecutorEvent) -> None:
        match message:
            case JobPrepared():
                prepared = self._modules.prepared
                made = (message.bind, message.init, message.optimizer, message.labels)
                record = prepared(job.module, *made)
                self._on_prepared(record)
            case JobCheckpoint():
                self._take_checkpoint(job, message.tag)
            case _ if isinstance(message, LAST):
                if job.kind is JobKind.FIT:
                    self._resume_points.let_go(job)
                    # Its last checkpoint may have been recorded by the recovery.
                    self._prune(job)
                if job.kind is JobKind.PREDICT:
                    self._datasets.discard_outputs(job.id)
                self._queue.tidy_ended(job)

    def _take_checkpoint(self, job: Job, tag: CheckpointTag) -> None:
        try:
            self._checkpoints.saved(job.module, tag)
        except NotFound as error:  # pruned meanwhile, while this server was suspended
            _log.info("job %d: skipped a checkpoint: %s", job.id, error)
            return
        self._resume_points.keep(job, tag)  # before it might be pruned
        self._prune(job)

    def _prune(self, job: Job) -> None:
        params = parse_job_params(job.kind, job.params)
        keep = params.checkpoint.keep if isinstance(params, FitParams) else None
        self._checkpoints.prune(job.module, keep)

    def _take_output(self, message: JobDone, job: Job) -> ExecutorEvent:
        """Make a predict job's output a dataset, before the job is reported as succeeded."""
        params = parse_job_params(job.kind, job.params)
        assert isinstance(params, PredictParams)
        try:
            self._datasets.adopt(self._output_path(job), params.output, DatasetKind.NPZ)
        except (ServiceError, OSError) as fault:
            error = refined(fault)
            return JobFailed(
                job_id=message.job_id,
                attempt=message.attempt,
                code=error_code(error),
                message=f"the output cannot become dataset {params.output!r}: {error}",
                field="output",
            )
        return message

    def _series_path(self, job: Job) -> Path:
        return series_path(self._checkpoints.root(job.module).parent, job.id)

    def _output_path(self, job: Job) -> Path:
        return self._datasets.output_path(job.id, job.attempt)


def _names_of(job: Job) -> Sequence[str]:
    """Return the names of the datasets that a job reads."""
    return dataset_names(parse_job_params(job.kind, job.params))
