"""An executor in a process of its own, connected by a Unix socket pair."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import app
from app.errors.tree import ExecutorGone
from app.link.client import Asked, Buffers, OnOutcome, Reply, Tensors, TensorSpecs
from app.link.event_flow import EventQueue
from app.link.signatures import Target
from app.link.slab_port import SlabLimits
from app.link.slots import Piece
from app.link.transport import Connection
from app.link.work_page import RunningWork, WorkPage
from app.logs import LogFormat

__all__ = ["PATIENCE", "ProcessClient", "ProcessOptions"]

PATIENCE: Mapping[str, str] = {
    # Longer than the pause between two primitives. With libgomp's default, an executor that answers
    # a request every 3 ms was seen to use a whole core; with this, a fifth of one.
    "GOMP_SPINCOUNT": "1000",
    # OpenBLAS: 2 to the power of this, in cycles.
    "OPENBLAS_THREAD_TIMEOUT": "14",
}
"""Environment variables that make idle threads sleep soon, for processes that share their cores.
Libraries read them when they are loaded."""

_SHARERS = "CORE_SHARERS"
"""Tells the engine among how many executors the available processors are divided."""

_THREAD_VARIABLES = (
    "MODSERVE_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOptions:
    """How executor processes are run.

    Attributes:
        program: the module that serves the socket, for ``python -m``, and extra arguments for it.
        threads: threads for kernels; None for this executor's share of the processors.
        sharers: number of executors that share the processors.
        limits: shared memory in each direction.
        start_seconds: how long a new process may take until it answers.
        stop_seconds: how long to wait for the batch in progress before the process is killed.
        beat_seconds: between heartbeats.
        log_level, log_format: of the process's log, which goes to standard error.
        environ: environment variables to add to this process's own.
    """

    program: tuple[str, ...]
    threads: int | None = None
    sharers: int = 1
    limits: SlabLimits = field(default_factory=SlabLimits)
    start_seconds: float = 60.0
    stop_seconds: float = 10.0
    beat_seconds: float = 1.0
    log_level: str = "INFO"
    log_format: LogFormat = "text"
    environ: Mapping[str, str] = field(default_factory=dict)


class ProcessClient:
    """An ``ExecutorClient`` with one spawned process, which is started once and never restarted.

    Use it from one event loop whose thread outlives it: Linux ends the process when the thread
    that started it ends.

    Attributes:
        exited: resolves with the exit status (negative: a signal) when the process has ended.
    """

    def __init__(
        self,
        name: str,
        options: ProcessOptions,
        events: EventQueue | None = None,
    ) -> None:
        """Create an executor that is not running yet; its events may go to an existing queue."""
        self.name = name
        self._options = options
        self._events = EventQueue() if events is None else events
        self._is_stopping = False
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._pidfd: int | None = None
        self._page: WorkPage | None = None
        self._last_works: tuple[RunningWork, ...] = ()
        self.exited: asyncio.Future[int]

    @property
    def pid(self) -> int | None:
        """Process id; None before the start."""
        return None if self._process is None else self._process.pid

    @property
    def connection(self) -> Connection:
        """The connection; raise ExecutorGone before the start."""
        if self._connection is None:
            raise ExecutorGone(f"executor {self.name} is not running")
        return self._connection

    async def start(self) -> None:
        """Spawn the process and wait until it answers.

        Raises:
            ExecutorGone: it ended or did not answer in time; its log says why.
            OSError: it could not be spawned or watched, and was cleaned up.
        """
        if self._process is not None:
            raise RuntimeError(f"executor {self.name} was started before; create a new client")
        loop = asyncio.get_running_loop()
        self.exited = loop.create_future()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            try:
                self._process = self._spawn(theirs)
            except BaseException:
                ours.close()
                self._close_page()
                raise
        try:
            self._connection = self._connect(self._process, ours)
        except BaseException:  # for example, out of descriptors
            self._abandon(self._process, ours)
            raise
        try:
            async with asyncio.timeout(self._options.start_seconds):
                await asyncio.shield(self._connection.hello)
        except TimeoutError:
            await self.kill("it did not answer in time after its start")
            raise ExecutorGone(
                f"executor {self.name} did not answer within {self._options.start_seconds} s"
            ) from None
        except BaseException:
            await self.kill("its start failed")
            raise

    async def stop(self) -> None:
        """Stop the process after the batch in progress; kill it if that takes too long."""
        if self._process is None:
            return
        # The process closes its socket as soon as it is done: that must not get it killed.
        self._is_stopping = True
        self.connection.stop()
        try:
            async with asyncio.timeout(self._options.stop_seconds):
                await asyncio.shield(self.exited)
        except TimeoutError:
            await self.kill("the batch in progress took too long")
        self.connection.close("the executor was stopped")

    async def kill(self, reason: str, *, is_overrun: bool = False) -> None:
        """Kill the process; pending calls fail with ExecutorGone.

        Args:
            is_overrun: because what it is computing takes too long.
        """
        if self._process is None:
            return
        if not self.exited.done():
            self._process.send_signal(signal.SIGKILL)
        self.connection.close(reason, is_overrun=is_overrun)
        await asyncio.shield(self.exited)

    def is_alive(self) -> bool:
        """Return whether calls can be answered at present."""
        connection = self._connection
        return connection is not None and connection.is_open and connection.hello.done()

    def running_works(self) -> tuple[RunningWork, ...]:
        """Return what the process is running, or was running when it ended."""
        return self._last_works if self._page is None else self._page.read()

    def reserve(self, specs: TensorSpecs) -> Buffers:
        """Return uninitialised tensors in shared memory (see ``ExecutorClient.reserve``)."""
        return self.connection.reserve(specs)

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        tensors: Tensors | Buffers | None = None,
    ) -> Reply:
        """Call a method of the host (see ``ExecutorClient.call``)."""
        return await self.connection.call(method, params, tensors)

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
        submit = self.connection.submit
        return submit(target, pieces, on_outcome, deadline=deadline, priority=priority)

    def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield what running jobs report."""
        return self._events.events()

    def events_taken(self, count: int) -> None:
        """Note that events were entered (see ``ExecutorClient.events_taken``)."""
        self._events.taken(count)

    def _spawn(self, sock: socket.socket) -> subprocess.Popen[bytes]:
        options = self._options
        page = self._page = WorkPage.create()
        command = [
            # -P keeps the working directory, which may hold another "app", off the path.
            *(sys.executable, "-P", "-m", *options.program),
            *("--fd", str(sock.fileno())),
            *("--work-fd", str(page.fd)),
            *("--device", self.name),
            *("--limit-bytes", str(options.limits.limit_bytes)),
            *("--idle-bytes", str(options.limits.idle_bytes)),
            *("--beat-seconds", str(options.beat_seconds)),
            *("--log-level", options.log_level),
            *("--log-format", options.log_format),
        ]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            pass_fds=[sock.fileno(), page.fd],
            env=self._environ(),
        )

    def _connect(self, process: subprocess.Popen[bytes], ours: socket.socket) -> Connection:
        """Watch a new process for its end, and connect to its socket."""
        # A descriptor rather than SIGCHLD, which is one signal for all the children of a process
        # and would have to be shared with whoever else waits for one.
        self._pidfd = os.pidfd_open(process.pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._on_exit)
        return Connection(
            ours,
            self._options.limits,
            self._events.put,
            self._on_closed,
            self.running_works,
        )

    def _abandon(self, process: subprocess.Popen[bytes], ours: socket.socket) -> None:
        """Kill a process that could not be connected to; it has not started any work."""
        # None, so that ``kill`` and ``stop`` do not wait for ``exited``, which nothing would set.
        self._process = None
        process.kill()
        process.wait()
        # The event loop has no reader to remove if the connection was not made, and removes none.
        asyncio.get_running_loop().remove_reader(ours)
        ours.close()
        self._close_pidfd()
        self._close_page()

    def _environ(self) -> dict[str, str]:
        threads = self._options.threads
        names = () if threads is None else _THREAD_VARIABLES
        environ = (
            dict(os.environ)
            | {_SHARERS: str(self._options.sharers)}
            | dict.fromkeys(names, str(threads))
            | {name: os.environ.get(name, value) for name, value in PATIENCE.items()}
            | dict(self._options.environ)
        )
        # This process may have found the package by its working directory, which -P rules out.
        root = str(Path(app.__file__).resolve().parent.parent)
        inherited = environ.get("PYTHONPATH")
        environ["PYTHONPATH"] = f"{root}{os.pathsep}{inherited}" if inherited else root
        return environ

    def _on_exit(self) -> None:
        """Record the exit status; called when the process has ended."""
        assert self._process is not None
        status = self._process.wait()
        self._close_pidfd()
        if not self.exited.done():
            self.exited.set_result(status)
        # One read of the socket takes a limited amount, so what the process reported last may still
        # be in it when its end is noticed.
        try:
            self.connection.drain()
        finally:
            self.connection.close(f"executor {self.name} ended {_describe(status)}")
            self._close_page()

    def _close_pidfd(self) -> None:
        pidfd, self._pidfd = self._pidfd, None
        if pidfd is not None:
            asyncio.get_running_loop().remove_reader(pidfd)
            os.close(pidfd)

    def _close_page(self) -> None:
        page, self._page = self._page, None
        if page is not None:
            self._last_works = page.read()  # asked for after the end, to say what it died of
            page.close()

    def _on_closed(self) -> None:
        """Kill the process when its socket is closed, because it can no longer be used."""
        if self._process is not None and not self.exited.done() and not self._is_stopping:
            self._process.send_signal(signal.SIGKILL)


def _describe(status: int) -> str:
    if status >= 0:
        return f"with exit status {status}"
    try:
        return f"by {signal.Signals(-status).name}"
    except ValueError:
        return f"by signal {-status}"
