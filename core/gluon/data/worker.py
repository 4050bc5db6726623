"""What a worker process of a ``DataLoader`` does: batches, one after the other, until it is told.

It is forked, so that datasets and functions need not be pickled. What it computes with is bound to
threads that the fork did not take along (OpenMP's): the work is done by a thread of its own, which
makes new ones.
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
"""Number of the batch, ``DONE`` or ``FAILED``, where the pickle in the memory sent along begins."""

DONE, FAILED = range(2)

LONGEST_REQUEST = 1 << 15
"""Bytes; a longer one comes in memory, and the place in there is sent."""

_CHECK_SECONDS = 1.0
"""How long it takes at most to see that the parent has gone."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker makes batches of.

    Attributes:
        dataset: the examples.
        batchify: makes a batch of a list of them.
        np_shape: the parent's mode.
    """

    dataset: Any
    batchify: Callable[[Sequence[Any]], Any]
    np_shape: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of a worker; ``error`` is None where it cannot be pickled."""

    error: BaseException | None
    description: str
    trace: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe an error that is being handled."""
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
    """Make the batches that are asked for until the parent closes the connection, or is gone.

    Args:
        connection: to the parent, this worker's own.
        others: the parent's ends of connections, which the fork brought along.
        parent: its process id.
        task: the dataset and how a batch is made of it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
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
    """Return whether a batch could be made, and the memory it or the error lies in."""
    try:
        _seed(seed)
        return (DONE, *write_object(task.batchify([task.dataset[index] for index in samples])))
    except BaseException as error:  # SystemExit, too: the parent hears of everything
        return (FAILED, *write_object(Failure.of(error)))


def _seed(seed: int) -> None:
    """Let a batch depend on its number, not on the worker that makes it."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    seed_engine(seed)


def _use_one_thread() -> None:
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
