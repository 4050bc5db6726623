"""Work that had no memory is done once more, with all that is idle put away."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from app.errors import OutOfMemory
from app.executor.background import Waits

__all__ = ["tried_twice"]

T = TypeVar("T")


def tried_twice(make: Callable[[], Waits[T]], make_room: Callable[[], None], what: str) -> Waits[T]:
    """Do work in steps; where there is no memory for it, anew after room was made.

    Args:
        make: begins the work.
        make_room: puts away what is idle.
        what: the work, for the error.

    Raises:
        OutOfMemory: there was none the second time either.
    """
    try:
        return (yield from make())
    except MemoryError:
        pass
    # The frames of the first attempt are gone, and with them their arrays.
    make_room()
    try:
        return (yield from make())
    except MemoryError as error:
        raise OutOfMemory(what, str(error)) from None
