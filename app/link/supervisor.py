"""Keeps an executor running: detects its death, restarts it, and has its modules restored.

    STOPPED ──start──▶ STARTING ──answers──▶ RESTORING ──restored──▶ READY
                          ▲                      │                     │
                          │                      └──── dead, silent ───┤
                          └──── delay over ──── WAITING ◀──────────────┘

Calls are answered only in READY; in every other state they fail at once with ExecutorGone.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from app.errors.tree import ExecutorGone
from app.link.client import (
    Asked,
    Buffers,
    ExecutorClient,
    OnOutcome,
    Reply,
    Tensors,
    TensorSpecs,
)
from app.link.event_flow import EventQueue
from app.link.process import ProcessClient, ProcessOptions
from app.link.signatures import Target
from app.link.slots import Piece
from app.link.work_page import RunningWork

__all__ = ["ExecutorState", "ExecutorStatus", "OnLoss", "RestartPolicy", "Restore", "Supervisor"]

_log = logging.getLogger(__name__)

Restore: TypeAlias = Callable[[ExecutorClient], Awaitable[None]]
"""Restores an executor's modules from their durable state; called after every start."""
OnLoss: TypeAlias = Callable[[str, str], Awaitable[None]]
"""Called after each death of a process with the executor's name and what happened."""


class ExecutorState(StrEnum):
    """Lifecycle of an executor."""

    STOPPED = "stopped"
    STARTING = "starting"
    RESTORING = "restoring"
    READY = "ready"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """When an executor is considered hung, and how soon it is restarted.

    Attributes:
        first_delay_seconds: minimum time between two starts, which doubles with each restart. An
            executor that has run for longer than that is restarted at once.
        longest_delay_seconds: limit on the delay.
        settled_seconds: time of running after which the delay is reset to the first.
        silence_seconds: time without a heartbeat after which the process is killed.
        call_seconds: time in a single call or batch of predictions after which the process is
            killed.
        stall_seconds: the same for a batch of a job.
    """

    first_delay_seconds: float = 0.2
    longest_delay_seconds: float = 30.0
    settled_seconds: float = 10.0
    silence_seconds: float = 30.0
    call_seconds: float = 900.0
    stall_seconds: float = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorStatus:
    """The current status of an executor.

    Attributes:
        restarts: number of restarts.
        last_end: why it last ended; None if it never did.
        doing, busy_seconds, rss_bytes: from its last heartbeat.
        calls_under_way: number of pending calls.
        request_bytes: shared memory held by requests.
    """

    name: str
    state: ExecutorState
    restarts: int
    last_end: str | None
    pid: int | None = None
    doing: str | None = None
    busy_seconds: float = 0.0
    rss_bytes: int = 0
    calls_under_way: int = 0
    request_bytes: int = 0


class Supervisor:
    """An ``ExecutorClient`` that outlives its processes."""

    def __init__(
        self,
        name: str,
        options: ProcessOptions,
        restore: Restore | None = None,
        policy: RestartPolicy | None = None,
        on_loss: OnLoss | None = None,
    ) -> None:
        """Create an executor that is not running yet.

        Args:
            name: its device, for example ``cpu(0)``.
            options: how its processes are run.
            restore: called with each new process, including the first, before calls are accepted.
                If it raises, the process is killed and restarted.
            policy: when to restart.
            on_loss: called before the next process is started.
        """
        self.name = name
        self._options = options
        self._restore = restore
        self._policy = policy or RestartPolicy()
        self._on_loss = on_loss
        self._events = EventQueue()
        self._client: ProcessClient | None = None
        self._state = ExecutorState.STOPPED
        self._restarts = 0
        self._last_end: str | None = None
        self._last_works: tuple[RunningWork, ...] = ()
        self._has_crashed = False
        self._overrun: str | None = None
        self._task: asyncio.Task[None] | None = None

    # -- ExecutorClient -----------------------------------------------------------------------

    async def start(self) -> None:
        """Start the executor, restore its modules and begin to watch it.

        Raises:
            ExecutorGone: the first process did not come up.
            Exception: what ``restore`` raised.
        """
        if self._task is not None:
            raise RuntimeError(f"executor {self.name} is already started")
        client = await self._bring_up()
        self._task = asyncio.create_task(self._keep_running(client), name=f"watch {self.name}")

    async def stop(self) -> None:
        """Stop watching, and stop the executor after the batch in progress."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        client, self._client = self._client, None
        self._state = ExecutorState.STOPPED
        if client is not None:
            await client.stop()

    def is_alive(self) -> bool:
        """Return whether calls can be answered at present."""
        return self.state is ExecutorState.READY

    def reserve(self, specs: TensorSpecs) -> Buffers:
        """Return uninitialised tensors in shared memory (see ``ExecutorClient.reserve``)."""
        return self._ready_client().reserve(specs)

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        tensors: Tensors | Buffers | None = None,
    ) -> Reply:
        """Call a method of the host (see ``ExecutorClient.call``)."""
        try:
            client = self._ready_client()
        except ExecutorGone:
            if isinstance(tensors, Buffers):
                tensors.release()
            raise
        return await client.call(method, params, tensors)

    def submit(
        self,
        target: Target,
        pieces: Sequence[Piece],
        on_outcome: OnOutcome,
        *,
        deadline: float = 0.0,
        priority: int = 0,
    ) -> Asked:
        """Ask for a prediction (see ``ExecutorClient.submit``)."""
        submit = self._ready_client().submit
        return submit(target, pieces, on_outcome, deadline=deadline, priority=priority)

    def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield events of running jobs, across restarts."""
        return self._events.events()

    def events_taken(self, count: int) -> None:
        """Note that events were entered (see ``ExecutorClient.events_taken``)."""
        self._events.taken(count)

    # -- for operators ------------------------------------------------------------------------

    @property
    def state(self) -> ExecutorState:
        """Its state in the lifecycle."""
        client = self._client
        if self._state is ExecutorState.READY and (client is None or not client.is_alive()):
            return ExecutorState.WAITING  # dead, but _watch has not noticed yet
        return self._state

    @property
    def restarts(self) -> int:
        """Number of restarts."""
        return self._restarts

    @property
    def has_died(self) -> bool:
        """True if a process ended unexpectedly, whether or not that has been noticed yet."""
        return self._last_end is not None or (self._client is not None and not self.is_alive())

    @property
    def has_crashed(self) -> bool:
        """True if the process that died last crashed, rather than being killed by this or from
        outside."""
        return self._has_crashed

    @property
    def overrun(self) -> str | None:
        """The method of the call that took so long that the last process was killed, if so."""
        return self._overrun

    @property
    def last_works(self) -> tuple[RunningWork, ...]:
        """What the process that died last was running."""
        client = self._client
        if client is not None and self._state is ExecutorState.READY and not client.is_alive():
            return client.running_works()
        return self._last_works

    def status(self) -> ExecutorStatus:
        """Return the executor's current status."""
        client = self._client
        facts: dict[str, Any] = {}
        if client is not None and client.pid is not None:
            connection = client.connection
            facts = {
                "pid": client.pid,
                "calls_under_way": connection.calls_under_way,
                "request_bytes": connection.request_bytes,
            } | connection.beat
        return ExecutorStatus(
            name=self.name,
            state=self.state,
            restarts=self._restarts,
            last_end=self._last_end,
            **facts,
        )

    # -- life ---------------------------------------------------------------------------------

    def _ready_client(self) -> ProcessClient:
        if self._client is None or not self.is_alive():
            raise ExecutorGone(f"executor {self.name} is {self.state}; try again in a moment")
        return self._client

    async def _bring_up(self) -> ProcessClient:
        """Start a process and restore its modules; on failure, kill the process."""
        self._state = ExecutorState.STARTING
        client = ProcessClient(self.name, self._options, self._events)
        self._client = client
        try:
            await client.start()
            self._state = ExecutorState.RESTORING
            if self._restore is not None:
                await self._restore(client)
        except BaseException:  # also when ``stop`` cancels it: no process may be left behind
            self._client = None
            self._state = ExecutorState.STOPPED
            await client.kill("its start or restore failed")
            raise
        self._state = ExecutorState.READY
        return client

    async def _keep_running(self, client: ProcessClient) -> None:
        loop = asyncio.get_running_loop()
        delay = self._policy.first_delay_seconds
        started = loop.time()
        running: ProcessClient | None = client
        while True:
            if running is not None:
                self._overrun = None
                end = await self._watch(running)
                works = self._last_works = running.running_works()
                # SIGKILL is sent by this class, by operators and by the OOM killer: only another
                # end can be put down to what the process was computing.
                self._has_crashed = running.exited.result() not in (0, -signal.SIGKILL)
                ran = " and ".join(map(str, works))
                self._last_end = f"{end} while it ran {ran}" if works else end
                _log.error("executor %s: %s; restarting it", self.name, self._last_end)
                if loop.time() - started > self._policy.settled_seconds:
                    delay = self._policy.first_delay_seconds
            self._state = ExecutorState.WAITING
            self._client = None
            # Before the next process, whose restore must find recorded what this death has lost.
            if running is not None:
                await self._tell_loss(self._last_end or "")
            await asyncio.sleep(started + delay - loop.time())
            delay = min(2 * delay, self._policy.longest_delay_seconds)
            self._restarts += 1
            started = loop.time()
            running = await self._try_again()

    async def _tell_loss(self, reason: str) -> None:
        if self._on_loss is not None:
            try:
                await self._on_loss(self.name, reason)
            except Exception:
                _log.exception("the loss of executor %s could not be recorded", self.name)

    async def _try_again(self) -> ProcessClient | None:
        try:
            return await self._bring_up()
        except ExecutorGone as error:
            self._last_end = f"did not come up: {error}"
            _log.error("executor %s %s", self.name, self._last_end)
        except Exception as error:
            self._last_end = f"did not come up: {error}"
            _log.exception("executor %s did not come up", self.name)
        return None

    async def _watch(self, client: ProcessClient) -> str:
        """Wait until a process has ended, or kill it if it hangs; return what happened."""
        loop = asyncio.get_running_loop()
        interval = min(1.0, self._policy.silence_seconds / 4)
        last_look = loop.time()
        while True:
            done, _ = await asyncio.wait([client.exited], timeout=interval)
            if done:
                return f"process {client.pid} ended with status {client.exited.result()}"
            # A process that was itself held up or suspended has not read the heartbeats it got.
            was_held_up = loop.time() - last_look > 2 * interval
            last_look = loop.time()
            if was_held_up:
                continue
            overrun = self._overrun_of(client)
            if overrun is not None:
                self._overrun = overrun.method
            fault = self._fault(client, last_look) if overrun is None else overrun.fault
            if fault is not None:
                await client.kill(fault, is_overrun=overrun is not None)
                return f"process {client.pid} was killed: {fault}"

    def _fault(self, client: ProcessClient, now: float) -> str | None:
        connection = client.connection
        silence = now - connection.last_heard
        if silence > self._policy.silence_seconds:
            return f"no heartbeat for {silence:.1f} s"
        busy = connection.beat.get("busy_seconds", 0.0)
        if busy > self._policy.stall_seconds:
            return f"busy with one {connection.beat['doing']} for {busy:.0f} s"
        return None

    def _overrun_of(self, client: ProcessClient) -> _Overrun | None:
        """Return the call that takes too long, if one does."""
        beat = client.connection.beat
        doing, busy = beat.get("doing"), beat.get("busy_seconds", 0.0)
        if doing in (None, "job") or busy <= self._policy.call_seconds:
            return None
        limit = self._policy.call_seconds
        fault = f"a call may hold the executor for {limit:g} s, and {doing} took {busy:.0f} s"
        return _Overrun(doing, fault)


class _Overrun(NamedTuple):
    """A call that takes too long: its method, and what to say of it."""

    method: str
    fault: str
