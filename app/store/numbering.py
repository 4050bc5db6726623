"""The numbers that versions of a module have, or are about to get.

They only grow: a number is not used again, even after its version was deleted.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, func, select

from app.domain.fit_epochs import FitEpochs, epochs_of
from app.domain.job import TERMINAL, Job, JobKind, JobStatus
from app.domain.module import ModuleRecord
from app.store.checkpoints import indexed_manifests
from app.store.jobs import select_jobs
from app.store.rows import job_of
from app.store.schema import checkpoints, jobs

__all__ = ["begin_of_fit", "fit_that_writes", "versions_in_the_way"]

_UNFINISHED = tuple(status.value for status in JobStatus if status not in TERMINAL)


def begin_of_fit(connection: Connection, module: ModuleRecord, starting: Job | None = None) -> int:
    """Return the epoch at which a fit that goes on counting begins.

    Args:
        module: its module.
        starting: the fit, if it starts now; the ones that wait for their turn then come after it.
    """
    others = [
        epochs.end
        for job, epochs in _unfinished(connection, module.id)
        if starting is None or (job.id != starting.id and job.attempt)
    ]
    newest = connection.scalar(
        select(func.max(checkpoints.c.epoch)).where(checkpoints.c.module_id == module.id)
    )
    used = [*others, *module.versions.kept()]
    if newest is not None:
        used.append(newest)
    if module.highest_deleted is not None:
        used.append(module.highest_deleted)
    if not used:
        return 0
    # What the fit begins with is saved as a version of its own if it exists only in memory.
    is_saved = module.durable or module.params is None or module.lost
    if starting is None and others:
        is_saved = True  # by the fits before it
    return max(used) if is_saved else max(used) + 1


def fit_that_writes(connection: Connection, module: ModuleRecord, version: int) -> Job | None:
    """Return the fit that has started and is about to write this version, None if none is."""
    for job, epochs in _unfinished(connection, module.id):
        if job.attempt and version in epochs.versions:
            return job
    return None


def versions_in_the_way(connection: Connection, job: Job) -> list[int]:
    """Return the versions that others have written since, of those that a fit has yet to write."""
    epochs = epochs_of(job)
    if epochs is None or not job.attempt:
        return []
    present = indexed_manifests(connection, job.module)
    own = [tag.epoch for tag, one in present.items() if one.job_id == job.id]
    begin = max([epochs.begin, *own])
    return sorted(
        tag.epoch
        for tag, one in present.items()
        if not tag.batch and begin < tag.epoch <= epochs.end and one.job_id != job.id
    )


def _unfinished(connection: Connection, module_id: int) -> Iterator[tuple[Job, FitEpochs]]:
    query = select_jobs().where(
        jobs.c.module_id == module_id,
        jobs.c.kind == JobKind.FIT.value,
        jobs.c.status.in_(_UNFINISHED),
    )
    for row in connection.execute(query):
        job = job_of(row)
        epochs = epochs_of(job)
        assert epochs is not None
        yield job, epochs
