"""A worker process of a ``DataLoader``, which makes batches until it is stopped.

It is forked, so that datasets and functions need not be picklable. A fork does not copy the
threads of the parent's OpenMP team, which an operator on the forked thread could wait for forever;
so the work runs on a new thread, which gets a team of its own, while the main thread waits for the
end of the parent.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import socket
import struct
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ndarray.np_shape import set_np_shape
from ...random import seed as seed_engine
from .shared_memory import SharedObject, write_object

__all__ = ["ANSWER", "DONE", "LONGEST_REQUEST", "Failure", "Task", "run_worker"]

ANSWER = struct.Struct("<QQQ")
"""Number of the batch, ``DONE`` or ``FAILED``, and the offset of the pickle in the memory sent with
it."""

DONE, FAILED = range(2)

LONGEST_REQUEST = 1 << 15
"""Largest size in bytes; a longer request is sent in shared memory, with an offset. A packet that
exceeds the socket's buffer (at least 200 KB on Linux by default) could never be sent."""

_CHECK_SECONDS = 1.0
"""Interval at which to check whether the parent is still alive."""


@dataclass(frozen=True, slots=True)
class Task:
    """The dataset of a worker, and how it makes batches.

    Attributes:
        dataset: the examples.
        batchify: makes a batch from a list of them.
        np_shape: whether np-shape is active in the parent.
    """

    dataset: Any
    batchify: Callable[[Sequence[Any]], Any]
    np_shape: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """An error in a worker; ``error`` is None if it cannot be pickled."""

    error: BaseException | None
    description: str
    trace: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe the error being handled."""
        trace = traceback.format_exc()
        description = "".join(traceback.format_exception_only(error)).strip()
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return cls(None, description, trace)
        return cls(error, description, trace)


def run_worker(
    connection: socket.socket, others: Sequence[socket.socket], parent: int, task: Task
) -> None:
    """Make the requested batches until the parent closes the connection or ends.

    Args:
        connection: this worker's connection to the parent.
        others: the parent's ends of connections, inherited by the fork, which must be closed.
        parent: its process id.
        task: the dataset, and how to make batches of it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it, too, and stops us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a server's handler would not end the worker
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    for other in others:
        other.close()
    worker = threading.Thread(target=_work, args=(connection, task), daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(_CHECK_SECONDS)
        if os.getppid() != parent:
            os._exit(1)  # whatever the dataset is doing


def _work(connection: socket.socket, task: Task) -> None:
    _use_one_thread()
    set_np_shape(task.np_shape)
    while True:
        try:
            content, files, _, _ = socket.recv_fds(connection, LONGEST_REQUEST, 1)
            if not content:
                return
            if files:
                content = SharedObject(files[0], int.from_bytes(content, "little")).load()
            _answer(connection, task, *pickle.loads(content))
        except ConnectionError:
            return


def _answer(
    connection: socket.socket, task: Task, number: int, samples: Sequence[Any], seed: int
) -> None:
    status, file, start = _result(task, samples, seed)
    try:
        socket.send_fds(connection, [ANSWER.pack(number, status, start)], [file])
    finally:
        os.close(file)


def _result(task: Task, samples: Sequence[Any], seed: int) -> tuple[int, int, int]:
    """Return whether a batch could be made, and the memory with it or with the error."""
    try:
        _seed(seed)
        return (DONE, *write_object(task.batchify([task.dataset[index] for index in samples])))
    except BaseException as error:  # including SystemExit: the parent must learn of every failure
        return (FAILED, *write_object(Failure.of(error)))


def _seed(seed: int) -> None:
    """Seed all generators, so that a batch depends on its number and not on the worker."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    seed_engine(seed)


def _use_one_thread() -> None:
    """Limit BLAS and OpenMP, which would otherwise start as many threads as cores per worker."""
    # Imported here, because `make gpu-test` runs the engine on a Python that may lack it.
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
