"""Keeps an executor running: notices its death, starts it again, has its modules restored.

    STOPPED ──start──▶ STARTING ──answers──▶ RESTORING ──restored──▶ READY
                          ▲                      │                     │
                          │                      └──── dead, silent ───┤
                          └──── delay over ──── WAITING ◀──────────────┘

Calls are answered in READY alone; in every other state they fail at once with ExecutorGone.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from app.errors import ExecutorGone
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
"""Brings an executor's modules back from their durable state; called after every start."""
OnLoss: TypeAlias = Callable[[str, str], Awaitable[None]]
"""Told of each death of a process: the executor's name, and what happened."""


class ExecutorState(StrEnum):
    """Where an executor is in its life."""

    STOPPED = "stopped"
    STARTING = "starting"
    RESTORING = "restoring"
    READY = "ready"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """When an executor is given up and how soon it is started again.

    Attributes:
        first_delay_seconds: least time between two starts; it doubles with each that follows. Who
            dies in the middle of its work has run for longer, and is started again at once.
        longest_delay_seconds: where the doubling ends.
        settled_seconds: after running so long the next delay is the first again.
        silence_seconds: without a heartbeat for so long the process is killed.
        stall_seconds: busy with one call or batch for so long the process is killed.
    """

    first_delay_seconds: float = 0.2
    longest_delay_seconds: float = 30.0
    settled_seconds: float = 10.0
    silence_seconds: float = 30.0
    stall_seconds: float = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorStatus:
    """What is known of an executor at present.

    Attributes:
        restarts: how often it was started again.
        last_end: why it last ended, None while it never did.
        doing, busy_seconds, rss_bytes: of its last heartbeat.
        calls_under_way: calls that wait for their answer.
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
        """Prepare an executor that is not running yet.

        Args:
            name: its device, for example ``cpu(0)``.
            options: how its processes are run.
            restore: called with each new process, the first included, before calls are taken.
                When it raises, the process is ended and started again.
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
        self._task: asyncio.Task[None] | None = None

    # -- ExecutorClient -----------------------------------------------------------------------

    async def start(self) -> None:
        """Start the executor, restore its modules and watch it from then on.

        Raises:
            ExecutorGone: the first process did not come up.
            Exception: what ``restore`` raised.
        """
        if self._task is not None:
            raise RuntimeError(f"executor {self.name} is started already")
        client = await self._bring_up()
        self._task = asyncio.create_task(self._keep_running(client), name=f"watch {self.name}")

    async def stop(self) -> None:
        """Stop watching and end the executor, letting a running batch finish."""
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
        """Yield what running jobs report, of all processes one after the other."""
        return self._events.events()

    def events_taken(self, count: int) -> None:
        """Note that events were entered (see ``ExecutorClient.events_taken``)."""
        self._events.taken(count)

    # -- for operators ------------------------------------------------------------------------

    @property
    def state(self) -> ExecutorState:
        """Where it is in its life."""
        client = self._client
        if self._state is ExecutorState.READY and (client is None or not client.is_alive()):
            return ExecutorState.WAITING  # dead, which the watch has yet to notice
        return self._state

    @property
    def restarts(self) -> int:
        """How often it was started again."""
        return self._restarts

    @property
    def has_died(self) -> bool:
        """True if a process ended unasked, or is dead and that is yet to be noticed."""
        return self._last_end is not None or (self._client is not None and not self.is_alive())

    @property
    def has_crashed(self) -> bool:
        """True if the process that died last was not killed, by this or from outside."""
        return self._has_crashed

    @property
    def last_works(self) -> tuple[RunningWork, ...]:
        """What the process that died last ran then."""
        client = self._client
        if client is not None and self._state is ExecutorState.READY and not client.is_alive():
            return client.running_works()
        return self._last_works

    def status(self) -> ExecutorStatus:
        """Return what is known of the executor at present."""
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
        """Start a process and restore its modules; what goes wrong ends the process again."""
        self._state = ExecutorState.STARTING
        client = ProcessClient(self.name, self._options, self._events)
        self._client = client
        try:
            await client.start()
            self._state = ExecutorState.RESTORING
            if self._restore is not None:
                await self._restore(client)
        except BaseException:
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
                end = await self._watch(running)
                works = self._last_works = running.running_works()
                self._has_crashed = running.exited.result() not in (0, -signal.SIGKILL)
                ran = " and ".join(map(str, works))
                self._last_end = f"{end} while it ran {ran}" if works else end
                _log.error("executor %s: %s; it is started again", self.name, self._last_end)
                if loop.time() - started > self._policy.settled_seconds:
                    delay = self._policy.first_delay_seconds
            self._state = ExecutorState.WAITING
            self._client = None
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
                _log.exception("the loss of executor %s could not be noted", self.name)

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
        """Wait until a process has ended, or kill it when it hangs; return what happened."""
        loop = asyncio.get_running_loop()
        interval = min(1.0, self._policy.silence_seconds / 4)
        last_look = loop.time()
        while True:
            done, _ = await asyncio.wait([client.exited], timeout=interval)
            if done:
                return f"process {client.pid} ended with status {client.exited.result()}"
            was_held_up = loop.time() - last_look > 2 * interval
            last_look = loop.time()
            fault = None if was_held_up else self._fault(client, last_look)
            if fault is not None:
                await client.kill(fault)
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
