"""What every kind of job shares: its module, its identity in events, and requests to stop."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from app.domain.job import JobAction
from app.executor.modules.hosted_module import HostedModule
from app.link.job_messages import (
    ExecutorEvent,
    JobCancelled,
    JobLog,
    JobMetric,
    JobPaused,
    JobProgress,
    JobStart,
    to_wire,
)
from app.link.protocols import Emit

__all__ = ["JobContext", "finite"]

_PROGRESS_SECONDS = 0.25

Level: TypeAlias = Literal["debug", "info", "warning", "error"]

_LEVELS: Mapping[int, Level] = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warning",
}


class JobContext:
    """One attempt of a job on this executor.

    Attributes:
        start: what it was started with.
        module: the module it works on.
        requested: pause or cancel, once requested.
        has_begun: it has reported something other than log lines.
        is_revertible: its training so far exists only in memory; if that is dropped, the module can
            be restored as the attempt found it.
    """

    def __init__(self, start: JobStart, module: HostedModule, emit: Emit) -> None:
        self.start = start
        self.module = module
        self.requested: JobAction | None = None
        self._emit = emit
        self._last_progress = -math.inf
        self._last_samples = 0
        self.has_begun = False
        self.is_revertible = False

    @property
    def job_id(self) -> int:
        """The job's id."""
        return self.start.job_id

    @property
    def attempt(self) -> int:
        """Number of this attempt, which every event carries."""
        return self.start.attempt

    def send(self, event: ExecutorEvent) -> None:
        """Report an event."""
        self.has_begun = self.has_begun or not isinstance(event, JobLog)
        self._emit(to_wire(event))

    def log(self, message: str, level: Level = "info") -> None:
        """Report a line of the job's log."""
        self.send(JobLog(job_id=self.job_id, attempt=self.attempt, level=level, message=message))

    def metric(
        self,
        epoch: int,
        part: Literal["train", "validation"],
        metrics: Mapping[str, float | None],
        seconds: float | None,
    ) -> None:
        """Report the metrics of an epoch."""
        self.send(
            JobMetric(
                job_id=self.job_id,
                attempt=self.attempt,
                epoch=epoch,
                part=part,
                metrics=metrics,
                seconds=seconds,
            )
        )

    def stopped(self) -> ExecutorEvent | None:
        """Return the final event of a job that was asked to stop; None if it was not."""
        if self.requested is None:
            return None
        if self.requested is JobAction.PAUSE:
            return JobPaused(job_id=self.job_id, attempt=self.attempt)
        return JobCancelled(
            job_id=self.job_id, attempt=self.attempt, is_unsaved=self.module.has_unsaved
        )

    def progress_is_due(self) -> bool:
        """Return whether enough time has passed since the last progress report."""
        return time.monotonic() - self._last_progress >= _PROGRESS_SECONDS

    def begin_stretch(self, samples: int) -> None:
        """Restart the measurement of the rate, so that time spent on other things does not
        count."""
        self._last_progress, self._last_samples = time.monotonic(), samples

    def progress(
        self,
        *,
        epoch: int,
        epochs: int,
        batch: int,
        batches: int,
        samples: int,
        metrics: Mapping[str, float | None],
        begin_epoch: int = 0,
    ) -> None:
        """Report how far the job is; ``samples`` counts from the job's first batch."""
        now = time.monotonic()
        elapsed, done = now - self._last_progress, samples - self._last_samples
        self._last_progress, self._last_samples = now, samples
        self.send(
            JobProgress(
                job_id=self.job_id,
                attempt=self.attempt,
                epoch=epoch,
                epochs=epochs,
                begin_epoch=begin_epoch,
                batch=batch,
                batches=batches,
                samples=samples,
                samples_per_second=done / elapsed if 0 < elapsed < math.inf else None,
                metrics=metrics,
            )
        )

    @contextmanager
    def captured_logs(self) -> Iterator[None]:
        """Report what this thread logs within the block (the engine's callbacks and schedulers
        do)."""
        root = logging.getLogger()  # callbacks such as Speedometer log to it, as in MXNet
        handler = _JobHandler(self)
        level = root.level
        root.addHandler(handler)
        root.setLevel(min(level, logging.INFO))
        try:
            yield
        finally:
            root.setLevel(level)
            root.removeHandler(handler)


class _JobHandler(logging.Handler):
    def __init__(self, context: JobContext) -> None:
        super().__init__(logging.INFO)
        self._context = context
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self._context.log(record.getMessage(), _LEVELS.get(record.levelno, "error"))


def finite(named: Any) -> dict[str, float | None]:
    """Return (name, value) pairs as a dict, with None for NaN and infinity, which JSON lacks."""
    return {
        name: float(value) if value is not None and math.isfinite(value) else None
        for name, value in named
    }
