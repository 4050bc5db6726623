"""Processes that make batches in parallel, and the handling of their failures."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import select
import signal
import socket
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from typing import Any

from ...errors import MXNetError, UsageError
from ...ndarray.np_shape import is_np_shape
from .batchify import default_batchify_fn, default_mp_batchify_fn, gathered
from .shared_memory import SharedObject, write_object
from .worker import ANSWER, DONE, LONGEST_REQUEST, Failure, Task, run_worker

__all__ = ["WorkerPool"]

_CHECK_SECONDS = 1.0
"""Interval at which to check for dead workers if no file descriptor reports it."""
_GRACE_SECONDS = 1.0
"""Time for workers to end by themselves, before they are killed."""

_connections: weakref.WeakSet[socket.socket] = weakref.WeakSet()
"""Connections to all workers of this process; workers forked later must close their copies."""


class WorkerTraceback(Exception):
    """The traceback of an error in a worker; attached as the cause of the error raised to the
    caller."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class _Worker:
    """A process, the connection to it, and the numbers of the batches requested from it."""

    def __init__(self, task: Task) -> None:
        self.asked: set[int] = set()
        # Sequenced packets keep the boundaries of messages, and can carry files.
        self.connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection.setblocking(False)
        _connections.add(self.connection)
        arguments = (theirs, list(_connections), os.getpid(), task)
        self.process: BaseProcess = _fork_context().Process(
            target=run_worker, args=arguments, daemon=True
        )
        # Block SIGINT until the worker ignores it, or Ctrl-C during the fork would end it with a
        # traceback.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            with theirs, warnings.catch_warnings():
                # Python 3.12 warns of forks in processes with threads, such as those of BLAS.
                warnings.simplefilter("ignore", DeprecationWarning)
                self.process.start()
        except BaseException:
            self.connection.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class WorkerPool:
    """Worker processes of one ``DataLoader``; they end when it is garbage-collected.

    Args:
        count: number of processes.
        dataset: the examples.
        batchify: makes a batch from a list of them.
    """

    def __init__(self, count: int, dataset: Any, batchify: Callable[[Sequence[Any]], Any]) -> None:
        if batchify in (default_batchify_fn, default_mp_batchify_fn):
            batchify = gathered
        self._task = Task(dataset, batchify, is_np_shape())
        self._next = 0
        self._forgotten: set[int] = set()
        self._results: dict[int, tuple[int, SharedObject] | MXNetError] = {}
        self._workers: list[_Worker] = []
        # The finalizer gets the list, not self, which it would keep alive.
        self._closing = weakref.finalize(self, _stop, self._workers, os.getpid())
        for _ in range(count):
            self._workers.append(_Worker(self._task))

    def submit(self, samples: Sequence[Any], seed: int) -> int:
        """Request the batch of these indices; return its number.

        Args:
            samples: the indices.
            seed: seed of all random generators for this batch.
        """
        self._receive(0)  # the answers that dead workers sent still count
        self._replace_dead()
        number, self._next = self._next, self._next + 1
        content = pickle.dumps((number, samples, seed))
        while not self._send(min(self._workers, key=lambda one: len(one.asked)), content):
            pass  # the worker has died and was replaced
        return number

    def result(self, number: int, timeout: float) -> Any:
        """Wait for a batch.

        Args:
            number: the result of ``submit``.
            timeout: seconds to wait.

        Raises:
            multiprocessing.TimeoutError: it takes longer. MXNetError: the worker has died.
            Exception: the error of the worker, with its traceback as the cause.
        """
        deadline = time.monotonic() + timeout
        while number not in self._results:
            left = deadline - time.monotonic()
            if left <= 0:
                raise multiprocessing.TimeoutError(
                    f"a worker of the DataLoader has not made its batch within {timeout} s; give "
                    "a greater timeout if transformations take long"
                )
            self._receive(min(left, _CHECK_SECONDS))
        found = self._results.pop(number)
        if isinstance(found, MXNetError):
            raise found
        status, shared = found
        if status == DONE:
            return shared.load()
        raise _error(shared.load())

    def forget(self, numbers: Sequence[int]) -> None:
        """Discard batches that are no longer needed."""
        for number in numbers:
            if self._results.pop(number, None) is None:
                self._forgotten.add(number)

    def close(self) -> None:
        """End the workers."""
        self._closing()

    def _send(self, worker: _Worker, content: bytes) -> bool:
        """Send a request while receiving answers; return whether the worker received it."""
        number = self._next - 1
        worker.asked.add(number)
        while worker in self._workers:
            try:
                if len(content) <= LONGEST_REQUEST:
                    worker.connection.send(content)
                else:
                    _send_in_memory(worker.connection, content)
                return True
            except BlockingIOError:
                # The worker may itself be waiting until this process takes its answers.
                self._receive(_CHECK_SECONDS, worker)
            except ConnectionError:
                self._replace(worker)
        self._results.pop(number, None)
        return False

    def _receive(self, timeout: float, to_send: _Worker | None = None) -> None:
        """Receive available answers; wait for one, or until ``to_send`` is writable."""
        poll = select.poll()
        by_file = {worker.connection.fileno(): worker for worker in self._workers}
        for file, worker in by_file.items():
            poll.register(file, select.POLLIN | (select.POLLOUT if worker is to_send else 0))
        ready = poll.poll(timeout * 1000)
        for file, events in ready:
            if events & ~select.POLLOUT:
                self._take(by_file[file])
        if not ready and timeout:
            self._replace_dead()

    def _replace_dead(self) -> None:
        """Replace workers that have ended, even if their connections do not report it yet."""
        for worker in list(self._workers):
            if not worker.process.is_alive():
                self._replace(worker)

    def _take(self, worker: _Worker) -> None:
        """Receive all answers that a worker has sent."""
        while True:
            try:
                content, files, _, _ = socket.recv_fds(worker.connection, ANSWER.size, 1)
            except BlockingIOError:
                return
            except ConnectionError:
                content = b""
            if not content:
                self._replace(worker)
                return
            number, status, start = ANSWER.unpack(content)
            worker.asked.discard(number)
            if number in self._forgotten:
                self._forgotten.remove(number)
                os.close(files[0])
            else:
                self._results[number] = (status, SharedObject(files[0], start))

    def _replace(self, worker: _Worker) -> None:
        """Replace a dead worker, and record its batches as lost."""
        worker.connection.close()
        process = worker.process
        process.kill()  # it may only have closed its connection
        process.join()
        code = process.exitcode or 0
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with code {code}"
        hint = "; the system may have run out of memory" if code == -signal.SIGKILL else ""
        error = MXNetError(
            f"worker process {process.pid} of the DataLoader {how} before it had made its "
            f"batch{hint}"
        )
        process.close()
        for number in worker.asked - self._forgotten:
            self._results[number] = error
        self._forgotten -= worker.asked
        self._workers[self._workers.index(worker)] = _Worker(self._task)


def _send_in_memory(connection: socket.socket, content: bytes) -> None:
    file, start = write_object(content)
    try:
        socket.send_fds(connection, [start.to_bytes(8, "little")], [file])
    finally:
        os.close(file)


def _stop(workers: list[_Worker], owner: int) -> None:
    """Stop workers; kill those that do not end in time."""
    if os.getpid() != owner:
        return  # in a forked process: the workers belong to its parent
    for worker in workers:
        worker.connection.close()
    deadline = time.monotonic() + _GRACE_SECONDS
    for worker in workers:
        worker.process.join(max(0.0, deadline - time.monotonic()))
        worker.process.kill()
        worker.process.join()
        worker.process.close()
    workers.clear()


def _error(failure: Failure) -> BaseException:
    error = failure.error or MXNetError(f"a worker of the DataLoader raised {failure.description}")
    error.__cause__ = WorkerTraceback(failure.trace)
    return error


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def _fork_context() -> Any:
    if "fork" not in multiprocessing.get_all_start_methods():
        raise UsageError("this system cannot fork processes; use thread_pool=True or num_workers=0")
    return multiprocessing.get_context("fork")
