"""An executor scripted by a test, and a dispatcher on top of such executors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from app.domain.job import Job, JobStatus
from app.errors.tree import ExecutorGone
from app.link.client import Buffers, Reply, Tensors, TensorSpecs
from app.link.job_messages import (
    ExecutorEvent,
    JobControl,
    JobStart,
    control_from_wire,
    start_from_wire,
    to_wire,
)
from app.services.jobs.dispatcher import Dispatcher

__all__ = ["ScriptedExecutor", "dispatching", "of", "until", "until_status"]


class ScriptedExecutor:
    """An ``ExecutorClient`` that records calls; tests send events in its name.

    Attributes:
        alive: whether it answers; if not, calls fail at once.
        refusal: the error that calls are refused with; None to accept them.
        replies: while cleared, calls arrive but are not answered, as during a long batch.
        taken: how many events the dispatcher has acknowledged.
        starts, controls: the messages that arrived.
    """

    def __init__(self, name: str = "cpu(0)") -> None:
        self.name = name
        self.alive = True
        self.refusal: Exception | None = None
        self.replies = asyncio.Event()
        self.replies.set()
        self.taken = 0
        self.starts: list[JobStart] = []
        self.controls: list[JobControl] = []
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def start(self) -> None:
        self.alive = True

    async def stop(self) -> None:
        self.alive = False

    def is_alive(self) -> bool:
        return self.alive

    def reserve(self, specs: TensorSpecs) -> Buffers:
        raise AssertionError("a dispatcher sends no tensors")

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        tensors: Tensors | Buffers | None = None,
    ) -> Reply:
        if not self.alive:
            raise ExecutorGone("it died")
        if self.refusal is not None:
            raise self.refusal
        assert params is not None
        if method == "start_job":
            self.starts.append(start_from_wire(params))
        else:
            assert method == "control_job"
            self.controls.append(control_from_wire(params))
        await self.replies.wait()
        return Reply({})

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        while True:
            yield await self._events.get()

    def events_taken(self, count: int) -> None:
        self.taken += count

    def send(self, *messages: ExecutorEvent) -> None:
        for message in messages:
            self._events.put_nowait(to_wire(message))

    def send_raw(self, wire: dict[str, Any]) -> None:
        self._events.put_nowait(wire)


@asynccontextmanager
async def dispatching(
    bench: Any, *executors: ScriptedExecutor, **options: Any
) -> AsyncIterator[Dispatcher]:
    """Run a dispatcher on these executors during the block."""
    options = {"jobs_per_executor": 2, "lease_seconds": 0.3} | options
    dispatcher = Dispatcher(executors, bench.queue, bench.runs, bench.notifiers, **options)
    await dispatcher.start()
    try:
        yield dispatcher
    finally:
        await dispatcher.stop(grace_seconds=0.0)


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "the condition did not hold within 20 s"
        await asyncio.sleep(0.01)


async def until_status(bench: Any, job: Job, status: JobStatus) -> Job:
    """Wait until a job has a status, and return the job."""
    await until(lambda: bench.jobs.get(job.id).status is status)
    return bench.jobs.get(job.id)


def of(start: JobStart) -> dict[str, int]:
    """Return the fields that identify a job's attempt in its messages."""
    return {"job_id": start.job_id, "attempt": start.attempt}
