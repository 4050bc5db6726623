"""Work off the device thread: reading, hashing, writing and syncing files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

__all__ = ["Waits", "awaited", "in_background", "settled"]

P = ParamSpec("P")
T = TypeVar("T")

Waits = Generator["Future[Any] | None", None, T]
"""Work in steps. Each ``yield`` gives way to other work; after yielding a future, it is resumed
only once that future is done."""


def in_background(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
    """Run a function in a daemon thread of its own, so that it cannot keep the process alive."""
    future: Future[T] = Future()

    def run(future: Future[T]) -> None:
        try:
            future.set_result(work(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        finally:
            del future  # breaks the cycle future -> error -> traceback -> this frame

    threading.Thread(target=run, args=(future,), name="background", daemon=True).start()
    return future


def settled(future: Future[Any]) -> Waits[None]:
    """Wait, within work in steps, for a future to be done, failed or not."""
    if not future.done():
        yield future


def awaited(future: Future[T]) -> Waits[T]:
    """Wait, within work in steps, for a future; return its result or raise its error."""
    yield from settled(future)
    try:
        return future.result()
    finally:
        del future  # see in_background
