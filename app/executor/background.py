"""Work that needs no device, beside the device's thread: files read, hashed, written and synced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

__all__ = ["Waits", "awaited", "in_background", "settled"]

P = ParamSpec("P")
T = TypeVar("T")

Waits = Generator["Future[Any] | None", None, T]
"""Work in steps. It is taken up again when its turn has come, after yielding a future not before
that is done."""


def in_background(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
    """Do something in a thread of its own, which keeps no process from ending."""
    future: Future[T] = Future()

    def run(future: Future[T]) -> None:
        try:
            future.set_result(work(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        finally:
            del future  # which has the error, whose traceback has this frame

    threading.Thread(target=run, args=(future,), name="background", daemon=True).start()
    return future


def settled(future: Future[Any]) -> Waits[None]:
    """Wait within work in steps until a future is done."""
    if not future.done():
        yield future


def awaited(future: Future[T]) -> Waits[T]:
    """Wait within work in steps; return or raise what the future has."""
    yield from settled(future)
    try:
        return future.result()
    finally:
        del future  # see in_background
