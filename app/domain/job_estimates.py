"""Estimates of the remaining time of a job."""

from __future__ import annotations

from app.domain.job import Job, JobStatus
from app.domain.moment import Moment

__all__ = ["remaining_seconds"]


def remaining_seconds(job: Job, now: Moment, typical_seconds: float | None) -> float | None:
    """Return the estimated remaining running time of a job in seconds; None if unknown.

    A running job is assumed to continue at the rate of its last report; one without a report, or
    queued, to take as long as previous jobs of its kind.

    Args:
        typical_seconds: running time of similar jobs, None if there was none.
    """
    if job.status is JobStatus.RUNNING:
        ran = 0.0 if job.claimed_at is None else now.steady - job.claimed_at
        by_rate = _by_rate(job)
        if by_rate is not None:
            return max(0.0, by_rate - min(ran, max(0.0, now.wall - job.updated_at)))
        return None if typical_seconds is None else max(0.0, typical_seconds - ran)
    if job.status is JobStatus.QUEUED and typical_seconds is not None:
        return max(0.0, typical_seconds - job.ran_seconds)
    return None


def _by_rate(job: Job) -> float | None:
    progress = job.progress
    rate, batches = progress.get("samples_per_second"), progress.get("batches")
    batch_size = job.params.get("batch_size")
    if not rate or not batches or not batch_size:
        return None
    left = (progress["epochs"] - progress["epoch"]) * batches - progress["batch"]
    return float(left * batch_size / rate)
