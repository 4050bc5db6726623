"""Removes surplus and expired jobs and events in the background."""

from __future__ import annotations

import asyncio
import logging

from app.errors.tree import ServiceError
from app.services.jobs.jobs import JobService
from app.services.operations.background_tasks import cancel_tasks, in_thread

__all__ = ["History"]

_log = logging.getLogger(__name__)

_DAY_SECONDS = 86400.0


class History:
    """Enforces the limits on finished jobs, and on events of modules and executors."""

    def __init__(
        self,
        jobs: JobService,
        keep_jobs: int | None,
        keep_days: float | None,
        keep_events: int = 10_000,
        every_seconds: float = 60.0,
    ) -> None:
        """Prepare; ``start`` begins to remove.

        Args:
            keep_jobs: how many of the newest finished jobs to keep; None keeps all.
            keep_days: how long to keep each; None for no limit.
            keep_events: how many of the newest events of modules and executors to keep.
            every_seconds: interval between removals.
        """
        self._jobs = jobs
        self._keep_jobs = keep_jobs
        self._keep_seconds = None if keep_days is None else keep_days * _DAY_SECONDS
        self._keep_events = keep_events
        self._every_seconds = every_seconds
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Remove surplus periodically, until ``stop``."""
        self._task = asyncio.create_task(self._run(), name="remove old jobs")

    async def stop(self) -> None:
        """Stop, after waiting for a removal in progress."""
        task, self._task = self._task, None
        if task is not None:
            await cancel_tasks([task])

    async def _run(self) -> None:
        while True:
            await in_thread(self._remove)
            await asyncio.sleep(self._every_seconds)

    def _remove(self) -> None:
        try:
            removed = self._jobs.remove_surplus(self._keep_jobs, self._keep_seconds)
            self._jobs.forget_events(self._keep_events)
        except (ServiceError, OSError) as error:
            _log.error("old jobs cannot be removed now: %s", error)
            return
        if removed:
            _log.info("removed %d old jobs", removed)
