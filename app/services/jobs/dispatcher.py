"""Runs jobs on executors, renews their leases and enforces their time limits.

    ExecutorJobs     one for each executor: claims jobs for it, and stores its reports
    renew            three times per lease: renews this server's leases, and recovers lost jobs
    expire           once a second: ends jobs that exceed their time limits

If an executor dies, its jobs return to the queue at once and resume from their newest checkpoints.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from app.link.client import ExecutorClient
from app.services.jobs.executor_jobs import ExecutorJobs
from app.services.jobs.job_attempts import JobAttempts
from app.services.jobs.job_queue import JobQueue
from app.services.modules.restoration import Restoration
from app.services.operations.background_tasks import cancel_tasks, in_thread, repeat
from app.services.operations.notifier import Notifiers

__all__ = ["Dispatcher"]

_EXPIRE_SECONDS = 1.0
_TIDY_EVERY = 20  # renewals


class Dispatcher:
    """Runs the jobs of the store on the executors of this server."""

    def __init__(
        self,
        clients: Iterable[ExecutorClient],
        queue: JobQueue,
        runs: JobAttempts,
        notifiers: Notifiers,
        *,
        jobs_per_executor: int = 2,
        lease_seconds: float = 30.0,
        restoration: Restoration | None = None,
    ) -> None:
        """Prepare; ``start`` begins to claim.

        Args:
            clients: the executors; iterated over by ``start``, and not before.
            jobs_per_executor: how many jobs, of different modules, each runs in turns.
            lease_seconds: the length of a job's lease; it is renewed three times in that time.
            restoration: restores the modules of jobs on their devices; None if they are always
                there.
        """
        self._clients = clients
        self._queue = queue
        self._runs = runs
        self._notifiers = notifiers
        self._jobs_per_executor = jobs_per_executor
        self._renew_seconds = lease_seconds / 3
        self._renewals = 0
        self._restoration = restoration
        self._executors: dict[str, ExecutorJobs] = {}
        self._loops: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Recover the jobs of dead servers, then claim, listen and renew until ``stop``."""
        await in_thread(self._queue.recover)
        for client in self._clients:
            jobs = ExecutorJobs(
                client,
                self._queue,
                self._runs,
                self._notifiers,
                self._jobs_per_executor,
                self._restoration,
            )
            self._executors[client.name] = jobs
            jobs.start()
        self._loops = [
            asyncio.create_task(repeat(self._renew), name="renew leases"),
            asyncio.create_task(repeat(self._expire), name="watch the time of jobs"),
        ]

    async def stop(self, grace_seconds: float = 10.0) -> None:
        """Stop claiming, let running jobs save a checkpoint, and return them to the queue.

        Args:
            grace_seconds: how long to wait for jobs to save; later ones are returned unsaved.
        """
        executors = list(self._executors.values())
        # Leases are renewed meanwhile, else another server would take over jobs that are saving.
        await asyncio.gather(*(executor.stop(grace_seconds) for executor in executors))
        await cancel_tasks(self._loops)
        self._loops = []

    async def executor_started(self, client: ExecutorClient) -> None:
        """Return an executor's jobs to the queue after a restart of its process."""
        jobs = self._executors.get(client.name)
        if jobs is not None:
            await jobs.lose_all(f"executor {client.name} was started again")

    @property
    def jobs_by_executor(self) -> dict[str, list[int]]:
        """Ids of the claimed jobs, by executor."""
        return {name: jobs.job_ids for name, jobs in self._executors.items()}

    async def _renew(self) -> None:
        executors = list(self._executors.values())
        attempts = [attempt for executor in executors for attempt in executor.attempts()]
        _, void = await in_thread(self._queue.renew, attempts)
        for job_id, attempt in void:
            for executor in executors:
                executor.drop(job_id, attempt)
        await in_thread(self._queue.recover)
        self._renewals += 1
        if self._renewals % _TIDY_EVERY == 0:
            ids = [job_id for executor in executors for job_id in executor.job_ids]
            await in_thread(self._queue.tidy, ids)
        await asyncio.sleep(self._renew_seconds)

    async def _expire(self) -> None:
        await in_thread(self._queue.expire)
        await asyncio.sleep(_EXPIRE_SECONDS)
