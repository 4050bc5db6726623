"""The jobs of one executor: claims, starts and stops them, and stores their reports.

Each call to the executor runs in a task of its own, so that an executor that is busy with a long
batch delays neither its other jobs nor further messages to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from app.domain.job import Job, JobAction, JobKind
from app.domain.job_transitions import TRANSIENT
from app.errors.http import error_code
from app.errors.tree import ExecutorGone, HostError, Invalid, ServiceError
from app.link.client import ExecutorClient
from app.link.job_messages import (
    ExecutorEvent,
    JobCheckpoint,
    JobControl,
    JobLog,
    JobPrepared,
    JobStart,
    event_from_wire,
    to_wire,
    without_outdated,
)
from app.link.module_messages import evicted_module
from app.link.supervisor import Supervisor
from app.services.jobs.job_attempts import LAST, JobAttempts
from app.services.jobs.job_queue import JobQueue
from app.services.modules.restoration import Restoration
from app.services.operations.background_tasks import (
    cancel_tasks,
    in_thread,
    logged,
    persistently,
    repeat,
    safely,
)
from app.services.operations.notifier import Notifiers

__all__ = ["ExecutorJobs"]

_log = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
"""Between looks at the store: notifiers tell only of changes made through this server."""
_SHORT_SECONDS = 0.25
_SHORT_IN_A_ROW = 4
"""After so many jobs, each shorter than that, further ones are claimed ahead."""
_AHEAD = 8
"""Short jobs claimed for each place: for the store, claiming ten takes as long as claiming one."""
_LONGEST_AHEAD_SECONDS = 1.0
"""A job that was claimed ahead and has waited this long for a place is returned to the queue, where
another server may take it."""


@dataclass(slots=True)
class _Assignment:
    """An attempt that was claimed for the executor.

    Attributes:
        start: the start message for the executor; None until it is known.
        wish: the action that is requested of the job, if any.
        told: the last action that was sent to the executor.
        has_place: it occupies one of the executor's places.
        placed_at: since when, by the clock of the event loop.
        is_started: the executor has accepted it.
        is_over: its last message has arrived, but may not have been stored yet.
        is_void: it no longer has the job.
    """

    job: Job
    start: JobStart | None = None
    wish: JobAction | None = None
    told: JobAction | None = None
    has_place: bool = False
    placed_at: float = 0.0
    is_started: bool = False
    is_over: bool = False
    is_void: bool = False


class ExecutorJobs:
    """Runs jobs of the store on one executor."""

    def __init__(
        self,
        client: ExecutorClient,
        queue: JobQueue,
        runs: JobAttempts,
        notifiers: Notifiers,
        places: int,
        restoration: Restoration | None = None,
    ) -> None:
        """Prepare; ``start`` begins to claim.

        Args:
            places: how many jobs, of different modules, it runs in turns.
            restoration: restores their modules on the device; None if they are always there.
        """
        self.client = client
        self._queue = queue
        self._runs = runs
        self._work = notifiers.work
        self._wishes = notifiers.wishes
        self._wishes_seen: int | None = None
        self._looked_at = 0.0
        self._places = places
        self._restoration = restoration
        self._place = asyncio.Semaphore(places)
        self._short_jobs = 0
        self._assignments: dict[int, _Assignment] = {}
        self._claiming = asyncio.Lock()
        self._is_claim_due = False
        self._claims: set[asyncio.Task[None]] = set()
        self._calls: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []
        self._is_stopping = False
        self._emptied = asyncio.Event()
        self._reports: asyncio.Queue[ExecutorEvent] = asyncio.Queue()

    # -- lifecycle ----------------------------------------------------------------------------

    def start(self) -> None:
        """Claim and listen until ``stop``."""
        name = self.client.name
        self._loops = [
            asyncio.create_task(repeat(self._look), name=f"claim for {name}"),
            asyncio.create_task(repeat(self._listen), name=f"listen to {name}"),
        ]

    async def stop(self, grace_seconds: float) -> None:
        """Stop claiming, let running jobs save a checkpoint, and return them to the queue."""
        self._is_stopping = True
        # Let a claim in progress end: cancelled, it would leave jobs claimed that nobody runs.
        async with self._claiming:
            pass
        for assignment in list(self._assignments.values()):
            self._wish(assignment, assignment.wish or JobAction.PAUSE)
        self._emptied.clear()
        if self._assignments:
            try:
                async with asyncio.timeout(grace_seconds):
                    await self._emptied.wait()
            except TimeoutError:
                _log.warning("executor %s: jobs did not stop in time", self.client.name)
        await cancel_tasks([*self._loops, *self._claims, *self._calls])
        for assignment in list(self._assignments.values()):
            job = assignment.job
            await in_thread(self._queue.release, job.id, job.attempt, "its server stopped")
        self._assignments.clear()

    # -- for the dispatcher -------------------------------------------------------------------

    @property
    def job_ids(self) -> list[int]:
        """Ids of the claimed jobs."""
        return list(self._assignments)

    def attempts(self) -> list[tuple[int, int]]:
        """Return the claimed attempts, as (job, attempt); none if the executor is dead."""
        if not self.client.is_alive():
            return []
        return [(one.job.id, one.job.attempt) for one in self._assignments.values()]

    def drop(self, job_id: int, attempt: int) -> None:
        """Stop an attempt that no longer has its job."""
        assignment = self._find(job_id, attempt)
        if assignment is not None:
            self._forget(assignment)
            assignment.is_void = True
            self._wish(assignment, JobAction.CANCEL)

    async def lose_all(self, reason: str) -> None:
        """Return all jobs to the queue, because the executor's process died."""
        for assignment in list(self._assignments.values()):
            await self._lose_to_death(assignment, reason)

    async def _lose_to_death(self, assignment: _Assignment, reason: str) -> None:
        # First what the process had reported, perhaps the end of this very job: once the attempt is
        # lost, its reports are dropped. The events have arrived, but ``_listen`` may not have run.
        await asyncio.sleep(0)
        if not self._is_stopping:  # after that, nobody may be storing them
            await self._reports.join()
        works = self.client.last_works if isinstance(self.client, Supervisor) else ()
        if any(work.job_id == assignment.job.id for work in works):
            reason = f"executor {self.client.name} was killed or crashed while it ran this job"
            await self._lose(assignment, reason)
        else:  # if other work was running, that is to blame for the death
            await self._lose(assignment, reason, counts=not works)

    # -- claim --------------------------------------------------------------------------------

    async def _look(self) -> None:
        ticket = self._work.ticket()
        if self.client.is_alive():
            await self._claim()
        else:
            await self.lose_all(f"executor {self.client.name} died")
        await self._look_for_wishes()
        await self._work.wait(ticket, _POLL_SECONDS)

    async def _claim(self) -> None:
        self._is_claim_due = False
        async with self._claiming:
            while (count := self._claimable()) > 0:
                jobs = await in_thread(self._runs.claim, self.client.name, count)
                for job, start in jobs:
                    self._drop_earlier(job)
                    assignment = self._assignments[job.id] = _Assignment(job, start)
                    self._call(partial(self._begin, assignment))
                if len(jobs) < count:
                    return

    def _drop_earlier(self, job: Job) -> None:
        """Stop an earlier attempt of a job that was lost and claimed again before ``drop``."""
        earlier = self._assignments.get(job.id)
        if earlier is not None:
            self.drop(job.id, earlier.job.attempt)

    def _claim_soon(self) -> None:
        """Schedule a claim for all places that are free by then, unless one is scheduled."""
        if not self._is_claim_due and not self._is_stopping:
            self._is_claim_due = True
            self._spawn(self._claims, safely(self._claim))

    def _claimable(self) -> int:
        """Return how many jobs to claim now."""
        if self._is_stopping or not self.client.is_alive():
            return 0
        unfinished = sum(not one.is_over for one in self._assignments.values())
        if self._short_jobs < _SHORT_IN_A_ROW:
            return self._places - unfinished
        # If recent jobs were short, claim more than there are places, so that the executor need not
        # wait for the store between two jobs. It still runs only as many as there are places.
        ahead = self._places * _AHEAD
        return ahead - unfinished if 2 * unfinished <= ahead else 0

    async def _take_place(self, assignment: _Assignment) -> bool:
        """Wait for a place on the executor; return False if the job is no longer claimed."""
        try:
            async with asyncio.timeout(_LONGEST_AHEAD_SECONDS):
                await self._place.acquire()
        except TimeoutError:
            self._short_jobs = 0
            if self._forget(assignment):
                job = assignment.job
                reason = "its executor is busy with longer jobs"
                await in_thread(self._queue.release, job.id, job.attempt, reason)
            return False
        if self._assignments.get(assignment.job.id) is not assignment:
            self._place.release()
            return False
        assignment.has_place = True
        assignment.placed_at = asyncio.get_running_loop().time()
        return True

    def _leave_place(self, assignment: _Assignment) -> None:
        if assignment.has_place:
            assignment.has_place = False
            self._place.release()

    async def _begin(self, assignment: _Assignment) -> None:
        job = assignment.job
        preparing = asyncio.ensure_future(self._start_message(assignment))
        try:
            has_place = await self._take_place(assignment)  # first, to keep the order of claims
            message = await preparing
            if not has_place:
                return
            await self._hand_over(message)
            assignment.is_started = True
            if assignment.wish is not None:
                await self._pass_on(assignment)
        except ExecutorGone as error:
            await self._lose_to_death(assignment, str(error))
        except (ServiceError, HostError) as error:
            code = error_code(error)
            if code in TRANSIENT:
                await self._lose(assignment, error.message, waits=True)
            elif self._forget(assignment):
                await in_thread(self._queue.fail, job.id, job.attempt, code, error.message)
                self._claim_soon()

    async def _start_message(self, assignment: _Assignment) -> JobStart:
        if assignment.start is not None:
            return assignment.start
        return await in_thread(self._runs.start_message, assignment.job)

    async def _hand_over(self, message: JobStart) -> None:
        """Start a job on the executor, after restoring its module if it is not on the device."""
        name = message.module
        try:
            await self._tell("start_job", message)
        except HostError as error:
            if error.code != "not_resident" or self._restoration is None:
                raise
            await self._restoration.restore(name)
            await self._tell("start_job", message)
        warning = await self._restoration.warning(name) if self._restoration is not None else None
        if warning is not None:
            line = JobLog(
                job_id=message.job_id, attempt=message.attempt, level="warning", message=warning
            )
            await self._enter([line])

    # -- wishes -------------------------------------------------------------------------------

    async def _look_for_wishes(self) -> None:
        # Requests to another server notify nobody here, so the store is polled as well.
        now, ticket = asyncio.get_running_loop().time(), self._wishes.ticket()
        is_due = ticket != self._wishes_seen or now - self._looked_at >= _POLL_SECONDS
        if self._assignments and is_due:
            self._wishes_seen, self._looked_at = ticket, now
            for job in await in_thread(self._queue.requests, list(self._assignments)):
                assignment = self._find(job.id, job.attempt)
                if assignment is not None and job.requested is not None:
                    self._wish(assignment, job.requested)

    def _wish(self, assignment: _Assignment, action: JobAction) -> None:
        """Send an action to the executor, now or once it has accepted the job."""
        assignment.wish = action
        if assignment.is_started and assignment.told is not action:
            self._call(partial(self._pass_on, assignment))

    async def _pass_on(self, assignment: _Assignment) -> None:
        action = assignment.told = assignment.wish
        assert action is not None
        job = assignment.job
        try:
            control = JobControl(
                job_id=job.id, attempt=job.attempt, action=action, is_void=assignment.is_void
            )
            await self._tell("control_job", control)
        except ExecutorGone as error:
            await self._lose_to_death(assignment, str(error))
        except HostError as error:
            # The executor is done with the job, whose last message is on the way.
            _log.info("job %d was not told to %s: %s", job.id, action, error)

    async def _tell(self, method: str, message: JobStart | JobControl) -> None:
        reply = await self.client.call(method, to_wire(message))
        reply.release()

    # -- listen -------------------------------------------------------------------------------

    async def _listen(self) -> None:
        """Store the executor's reports, in order."""
        entering = asyncio.create_task(
            repeat(self._enter_waiting), name=f"store reports of {self.client.name}"
        )
        try:
            async for wire in self.client.events():
                message = self._read(wire)
                if message is None:
                    self._call(partial(self._note, wire))
                else:
                    self._reports.put_nowait(message)
        finally:
            await cancel_tasks([entering])

    def _read(self, wire: dict[str, Any]) -> ExecutorEvent | None:
        try:
            message = event_from_wire(wire)
        except Invalid as error:
            _log.error(
                "executor %s sent something that is not an event: %s", self.client.name, error
            )
            return None
        if isinstance(message, LAST):
            assignment = self._find(message.job_id, message.attempt)
            if assignment is not None:
                self._note_end(assignment)
        return message

    async def _note(self, wire: dict[str, Any]) -> None:
        """Handle an event that is not about a job."""
        try:
            module = evicted_module(wire)
            if module is not None and self._restoration is not None:
                await in_thread(self._restoration.note_eviction, module)
        finally:
            self.client.events_taken(1)

    def _note_end(self, assignment: _Assignment) -> None:
        """Free a job's place without waiting for its end to be stored."""
        assignment.is_over = True
        self._leave_place(assignment)
        seconds = asyncio.get_running_loop().time() - assignment.placed_at
        self._short_jobs = self._short_jobs + 1 if seconds < _SHORT_SECONDS else 0
        self._claim_soon()

    async def _enter_waiting(self) -> None:
        messages = [await self._reports.get()]
        while not self._reports.empty():
            messages.append(self._reports.get_nowait())
        try:
            for part in self._parts(without_outdated(messages)):
                await safely(partial(self._enter_or_lose, part))
        finally:
            for _ in messages:
                self._reports.task_done()
        self.client.events_taken(len(messages))

    def _parts(self, messages: list[ExecutorEvent]) -> list[list[ExecutorEvent]]:
        """Split messages into batches, each to be stored in one transaction.

        A message that involves files gets a batch of its own, so that everything before it has been
        handled.
        """
        parts: list[list[ExecutorEvent]] = [[]]
        for message in messages:
            if self._has_files(message):
                parts += [[message], []]
            else:
                parts[-1].append(message)
        return [part for part in parts if part]

    def _has_files(self, message: ExecutorEvent) -> bool:
        if isinstance(message, LAST):
            assignment = self._find(message.job_id, message.attempt)
            return assignment is not None and assignment.job.kind is not JobKind.SCORE
        return isinstance(message, JobPrepared | JobCheckpoint)

    async def _enter_or_lose(self, messages: list[ExecutorEvent]) -> None:
        """Store messages; if the end of an attempt cannot be stored, declare the attempt lost, so
        that its job is retried."""
        try:
            await self._enter(messages)
        except Exception:
            for message in messages:
                assignment = self._find(message.job_id, message.attempt)
                if isinstance(message, LAST) and assignment is not None:
                    await self._lose(assignment, "its end could not be entered; see the log")
            raise

    async def _enter(self, messages: list[ExecutorEvent]) -> None:
        """Store messages, retrying while the store is unavailable, because they will not be sent
        again."""
        if len(messages) == 1:
            messages = [await self._prepare(messages[0])]
        jobs = await persistently(lambda: self._runs.enter(messages))
        for job, message in zip(jobs, messages, strict=True):
            if job is not None and isinstance(message, JobPrepared | JobCheckpoint | LAST):
                await self._follow_up(job, message)
            assignment = self._find(message.job_id, message.attempt)
            if assignment is not None and isinstance(message, LAST):
                self._forget(assignment)
            elif job is None:  # not only forgotten: it would keep its module busy to the end
                self.drop(message.job_id, message.attempt)
        self._claim_soon()

    async def _prepare(self, message: ExecutorEvent) -> ExecutorEvent:
        assignment = self._find(message.job_id, message.attempt)
        if assignment is None or not isinstance(message, LAST):
            return message
        return await persistently(lambda: self._runs.prepare(message, assignment.job))

    async def _follow_up(self, job: Job, message: ExecutorEvent) -> None:
        await persistently(lambda: self._runs.follow_up(job, message))

    # -- assignments --------------------------------------------------------------------------

    def _find(self, job_id: int, attempt: int) -> _Assignment | None:
        assignment = self._assignments.get(job_id)
        return assignment if assignment and assignment.job.attempt == attempt else None

    def _forget(self, assignment: _Assignment) -> bool:
        """Remove a job from this executor; return False if it had been removed before."""
        if self._assignments.get(assignment.job.id) is not assignment:
            return False
        del self._assignments[assignment.job.id]
        self._leave_place(assignment)
        if not self._assignments:
            self._emptied.set()
        return True

    async def _lose(self, assignment: _Assignment, reason: str, **how: bool) -> None:
        self._forget(assignment)
        job = assignment.job
        await in_thread(self._queue.lose, job.id, job.attempt, reason, **how)

    def _call(self, step: Callable[[], Awaitable[None]]) -> None:
        self._spawn(self._calls, logged(step))

    def _spawn(self, tasks: set[asyncio.Task[None]], step: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(step)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
