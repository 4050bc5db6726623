"""The np-shape mode of MXNet: whether files may hold scalars and empty arrays as such.

MXNet also reads a length of 0 as "unknown" outside of this mode. Here arrays without axes or
elements exist in both modes; what the mode decides is the version of the files ``save`` writes.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, TypeVar

__all__ = ["is_np_shape", "np_shape", "set_np_shape", "use_np_shape"]

P = ParamSpec("P")
R = TypeVar("R")


class _State(threading.local):
    active = False


_state = _State()


def is_np_shape() -> bool:
    """Return whether this thread is in np-shape mode."""
    return _state.active


def set_np_shape(active: bool) -> bool:
    """Switch np-shape mode on or off; return what was before."""
    before, _state.active = _state.active, bool(active)
    return before


class np_shape:
    """A ``with`` block in np-shape mode, or out of it."""

    def __init__(self, active: bool = True) -> None:
        self._active = active
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(set_np_shape(self._active))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        set_np_shape(self._before.pop())


def use_np_shape(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function run in np-shape mode."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with np_shape(True):
            return function(*args, **kwargs)

    return wrapped
