"""Steps of a pass that run by one call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

__all__ = ["Chain"]


@dataclasses.dataclass(frozen=True, slots=True)
class Chain:
    """Consecutive steps of a pass that run as one call.

    Attributes:
        call: runs them; returns the status of the first that failed, or what a single step returns.
        count: number of steps.
        done: returns the number of steps that the last call completed before one failed.
        needs_scope: whether it has to run inside ``Backend.scope``.
    """

    call: Callable[[], Any]
    count: int = 1
    done: Callable[[], int] = lambda: 0
    needs_scope: bool = True
