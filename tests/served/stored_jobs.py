"""Jobs inserted into a store without a service."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection

from app.domain.job import Job
from app.store.jobs import NewJob, insert_jobs
from app.store.modules import module_id

__all__ = ["insert_job"]


def insert_job(
    connection: Connection, job: Job, dataset_ids: Collection[int] = (), now: float = 0.0
) -> Job:
    """Queue a job; return it with its id."""
    new = NewJob(job, module_id(connection, job.module), dataset_ids)
    return insert_jobs(connection, [new], now)[0]
