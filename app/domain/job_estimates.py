"""How long a job has still to run, as far as can be told."""

from __future__ import annotations

from app.domain.job import Job, JobStatus

__all__ = ["remaining_seconds"]


def remaining_seconds(job: Job, now: float, typical_seconds: float | None) -> float | None:
    """Return in how many seconds a job will have run, once its turn has come; None: not known.

    A running job goes on at the rate of its last report; what has not reported yet, and what is
    queued, takes as long as the jobs of its kind before it.

    Args:
        typical_seconds: how long jobs like it ran, None if there was none.
    """
    if job.status is JobStatus.RUNNING:
        by_rate = _by_rate(job)
        if by_rate is not None:
            return max(0.0, by_rate - (now - job.updated_at))
        started = now if job.claimed_at is None else job.claimed_at
        return None if typical_seconds is None else max(0.0, typical_seconds - (now - started))
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
