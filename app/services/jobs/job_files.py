"""The files of a single job: its series of metrics and histograms, and its resume point."""

from __future__ import annotations

from pathlib import Path

from app.domain.job import Job
from app.domain.named_arrays import NamedArray
from app.files.durable_files import discard
from app.files.histogram_series import (
    Histograms,
    histograms_path,
    read_histograms,
)
from app.files.metric_series import Series, read_series, series_path
from app.services.jobs.resume_points import ResumePoints
from app.services.modules.checkpoints import CheckpointService

__all__ = ["JobFiles"]


class JobFiles:
    """The files of jobs. Its methods block."""

    def __init__(self, checkpoints: CheckpointService, resume_points: ResumePoints) -> None:
        self._checkpoints = checkpoints
        self._resume_points = resume_points

    def series(self, job: Job, name: str, points: int) -> Series:
        """Return a series of a job's metrics; see ``read_series``."""
        return read_series(self._series_path(job), name, points)

    def histograms(self, job: Job, array: NamedArray | None, points: int) -> Histograms:
        """Return the histograms of a weight or gradient; see ``read_histograms``."""
        return read_histograms(histograms_path(self._series_path(job)), array, points)

    def discard(self, job: Job) -> None:
        """Remove the files of a deleted job."""
        discard(self._series_path(job))
        discard(histograms_path(self._series_path(job)))
        self._resume_points.discard(job)

    def _series_path(self, job: Job) -> Path:
        return series_path(self._checkpoints.root(job.module).parent, job.id)
