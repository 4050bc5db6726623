"""Gives jobs to executors, keeps their leases, and enters what they report.

    claim     whenever something changed: fill executors that have a free place, pass on requests
    listen    to each executor, for as long as the server runs
    renew     three times a lease: keep what this server has, take over what others let go

An executor that dies loses its jobs at once; they go on from their newest checkpoints.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial

from app.domain.job import Job, JobAction
from app.error_table import error_code
from app.errors import (
    ExecutorGone,
    HostError,
    Invalid,
    ServiceError,
    StorageFull,
    Unavailable,
)
from app.link.client import ExecutorClient
from app.link.job_messages import (
    ExecutorEvent,
    JobControl,
    JobProgress,
    JobStart,
    event_from_wire,
    to_wire,
)
from app.services.bell import Bell
from app.services.job_queue import JobQueue
from app.services.job_runs import JobRuns

__all__ = ["Dispatcher"]

_log = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
_SHORTEST_PASS_SECONDS = 0.05
_AFTER_ERROR_SECONDS = 1.0
_TIDY_EVERY = 20  # renewals
_PASSING = frozenset({"in_use", "unavailable", "storage_full"})
"""Codes of refusals that another attempt may not meet."""


@dataclass(slots=True)
class _Assignment:
    """An attempt that an executor of this server works on."""

    job: Job
    client: ExecutorClient
    told: JobAction | None = None


class Dispatcher:
    """Runs the jobs of the store on the executors of this server."""

    def __init__(
        self,
        clients: Iterable[ExecutorClient],
        queue: JobQueue,
        runs: JobRuns,
        bell: Bell,
        *,
        jobs_per_executor: int = 2,
        lease_seconds: float = 30.0,
    ) -> None:
        """Prepare; ``start`` begins to claim.

        Args:
            clients: the executors; looked at when it starts.
            jobs_per_executor: jobs, of different modules, that each runs in turns.
            lease_seconds: of the jobs; leases are renewed three times as often.
        """
        self._executors = clients
        self._clients: list[ExecutorClient] = []
        self._queue = queue
        self._runs = runs
        self._bell = bell
        self._jobs_per_executor = jobs_per_executor
        self._renew_seconds = lease_seconds / 3
        self._renewals = 0
        self._assignments: dict[int, _Assignment] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._refused: set[asyncio.Task[None]] = set()
        self._claiming: asyncio.Task[None] | None = None
        self._is_stopping = False

    # -- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover what dead servers left running, then claim, listen and renew until ``stop``."""
        self._clients = list(self._executors)
        await asyncio.to_thread(self._queue.recover)
        self._tasks = [
            asyncio.create_task(self._listen(client), name=f"listen to {client.name}")
            for client in self._clients
        ]
        self._tasks.append(asyncio.create_task(_repeat(self._renew), name="renew leases"))
        self._claiming = asyncio.create_task(self._claim_until_stopped(), name="claim jobs")

    async def stop(self, grace_seconds: float = 10.0) -> None:
        """Stop claiming, let running jobs save where they are, and give them back to the queue.

        Args:
            grace_seconds: how long to wait for jobs to save; they are given back all the same.
        """
        if self._claiming is None:
            return
        self._is_stopping = True
        self._bell.ring()
        # A claim under way may end: cancelled, it would leave its job running for nobody.
        _, hanging = await asyncio.wait([self._claiming], timeout=grace_seconds + _POLL_SECONDS)
        await _cancel(hanging)
        self._claiming = None
        for assignment in list(self._assignments.values()):
            if assignment.told is None:
                await self._tell(assignment, JobAction.PAUSE)
        deadline = asyncio.get_running_loop().time() + grace_seconds
        while self._assignments and (left := deadline - asyncio.get_running_loop().time()) > 0:
            ticket = self._bell.ticket()
            if self._assignments:
                await self._bell.wait(ticket, min(left, _POLL_SECONDS))
        await _cancel([*self._tasks, *self._refused])
        self._tasks = []
        for job_id, assignment in list(self._assignments.items()):
            await asyncio.to_thread(
                self._queue.release, job_id, assignment.job.attempt, "its server stopped"
            )
        self._assignments.clear()

    async def executor_started(self, client: ExecutorClient) -> None:
        """Note that an executor has a new process: the jobs of the one before are lost."""
        await self._lose_all(client.name, f"executor {client.name} was started again")

    @property
    def jobs_by_executor(self) -> dict[str, list[int]]:
        """Ids of the jobs in work, by executor."""
        found: dict[str, list[int]] = {client.name: [] for client in self._clients}
        for job_id, assignment in self._assignments.items():
            found[assignment.client.name].append(job_id)
        return found

    # -- claim --------------------------------------------------------------------------------

    async def _claim_until_stopped(self) -> None:
        while not self._is_stopping:
            await _safely(self._claim)

    async def _claim(self) -> None:
        ticket = self._bell.ticket()
        for client in self._clients:
            if client.is_alive():
                await self._fill(client)
            else:
                await self._lose_all(client.name, f"executor {client.name} died")
        await self._pass_on_requests()
        await asyncio.sleep(_SHORTEST_PASS_SECONDS)
        await self._bell.wait(ticket, _POLL_SECONDS)

    async def _fill(self, client: ExecutorClient) -> None:
        while self._has_place(client):
            job = await asyncio.to_thread(self._queue.claim, client.name)
            if job is None:
                return
            await self._begin(client, job)

    def _has_place(self, client: ExecutorClient) -> bool:
        taken = len(self.jobs_by_executor[client.name])
        return not self._is_stopping and client.is_alive() and taken < self._jobs_per_executor

    async def _begin(self, client: ExecutorClient, job: Job) -> None:
        assignment = self._assignments[job.id] = _Assignment(job, client)
        try:
            message = await asyncio.to_thread(self._runs.start_message, job)
            await _call(client, "start_job", message)
        except ExecutorGone as error:
            await self._lose(assignment, str(error))
        except (ServiceError, HostError) as error:
            code = error_code(error)
            if code in _PASSING:
                self._lose_later(assignment, error.message)
            elif self._assignments.pop(job.id, None) is not None:
                await asyncio.to_thread(self._queue.fail, job.id, job.attempt, code, error.message)

    async def _pass_on_requests(self) -> None:
        if not self._assignments:
            return
        for job in await asyncio.to_thread(self._queue.requests, list(self._assignments)):
            assignment = self._assignments.get(job.id)
            if (
                assignment is not None
                and job.requested is not None
                and assignment.told is not job.requested
            ):
                await self._tell(assignment, job.requested)

    async def _tell(self, assignment: _Assignment, action: JobAction) -> None:
        control = JobControl(
            job_id=assignment.job.id, attempt=assignment.job.attempt, action=action
        )
        try:
            await _call(assignment.client, "control_job", control)
        except ExecutorGone as error:
            await self._lose(assignment, str(error))
        except HostError as error:
            # Its last message is on the way: the executor has forgotten the job already.
            _log.info("job %d was not told to %s: %s", assignment.job.id, action, error)
        assignment.told = action

    # -- listen -------------------------------------------------------------------------------

    async def _listen(self, client: ExecutorClient) -> None:
        """Enter what an executor reports, in its order."""
        reports: asyncio.Queue[ExecutorEvent] = asyncio.Queue()
        entering = asyncio.create_task(
            _repeat(lambda: self._enter_waiting(reports)), name=f"enter of {client.name}"
        )
        try:
            async for wire in client.events():
                try:
                    message = event_from_wire(wire)
                except Invalid as error:
                    _log.error("executor %s sent what is no event: %s", client.name, error)
                    continue
                if message is not None:
                    reports.put_nowait(message)
        finally:
            await _cancel([entering])

    async def _enter_waiting(self, reports: asyncio.Queue[ExecutorEvent]) -> None:
        messages = [await reports.get()]
        while not reports.empty():
            messages.append(reports.get_nowait())
        for message in _without_outdated(messages):
            await _safely(partial(self._enter, message))

    async def _enter(self, message: ExecutorEvent) -> None:
        """Enter a report, however long the store does not take it: no other one will say this."""
        while True:
            try:
                is_over = await asyncio.to_thread(self._runs.enter, message)
                break
            except (Unavailable, StorageFull) as error:
                _log.error("job %d: %s waits: %s", message.job_id, message.type, error)
                await asyncio.sleep(_AFTER_ERROR_SECONDS)
        assignment = self._assignments.get(message.job_id)
        if is_over and assignment is not None and assignment.job.attempt == message.attempt:
            del self._assignments[message.job_id]
            self._bell.ring()  # its place is free

    # -- renew --------------------------------------------------------------------------------

    async def _renew(self) -> None:
        claims = [
            (assignment.job.id, assignment.job.attempt)
            for assignment in self._assignments.values()
            if assignment.client.is_alive()
        ]
        _, void = await asyncio.to_thread(self._queue.renew, claims)
        for job_id, attempt in void:
            taken = self._assignments.get(job_id)
            if taken is not None and taken.job.attempt == attempt:
                del self._assignments[job_id]
                await self._tell(taken, JobAction.CANCEL)
        await asyncio.to_thread(self._queue.recover)
        self._renewals += 1
        if self._renewals % _TIDY_EVERY == 0:
            await asyncio.to_thread(self._queue.tidy, list(self._assignments))
        await asyncio.sleep(self._renew_seconds)

    # -- loss ---------------------------------------------------------------------------------

    async def _lose_all(self, name: str, reason: str) -> None:
        for assignment in list(self._assignments.values()):
            if assignment.client.name == name:
                await self._lose(assignment, reason)

    def _lose_later(self, assignment: _Assignment, reason: str) -> None:
        """Keep a refused job's place for a while, so that it does not come back at once."""

        async def lose() -> None:
            await asyncio.sleep(_AFTER_ERROR_SECONDS)
            await self._lose(assignment, reason)

        task = asyncio.create_task(_safely(lose), name=f"lose job {assignment.job.id}")
        self._refused.add(task)
        task.add_done_callback(self._refused.discard)

    async def _lose(self, assignment: _Assignment, reason: str) -> None:
        if self._assignments.get(assignment.job.id) is assignment:
            del self._assignments[assignment.job.id]
        await asyncio.to_thread(self._queue.lose, assignment.job.id, assignment.job.attempt, reason)


async def _repeat(step: Callable[[], Awaitable[None]]) -> None:
    while True:
        await _safely(step)


async def _safely(step: Callable[[], Awaitable[None]]) -> None:
    """Do a step; an error of the store or of ours is logged, and delays what comes next."""
    try:
        await step()
    except Exception:
        _log.exception("the dispatcher goes on after an error")
        await asyncio.sleep(_AFTER_ERROR_SECONDS)


async def _call(client: ExecutorClient, method: str, message: JobStart | JobControl) -> None:
    reply = await client.call(method, to_wire(message))
    reply.release()


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _without_outdated(messages: list[ExecutorEvent]) -> list[ExecutorEvent]:
    """Leave out progress that a later report of the same job outdates."""
    newest = {m.job_id: i for i, m in enumerate(messages) if isinstance(m, JobProgress)}
    return [
        message
        for i, message in enumerate(messages)
        if not isinstance(message, JobProgress) or newest[message.job_id] == i
    ]
