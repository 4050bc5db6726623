"""A moment by two clocks: the one that people read, and one that nobody sets."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Moment"]


class Moment(NamedTuple):
    """A moment in time, in seconds since 1970 by two clocks.

    Attributes:
        wall: by the machine's clock, which can be set forward and back; for people.
        steady: by the clock of the store, on which a second is a second: for limits and durations.
    """

    wall: float
    steady: float

    @property
    def earlier(self) -> float:
        """The earlier time of both clocks: what is old by it may be deleted.

        A machine's clock that jumps a year ahead must not make everything old.
        """
        return min(self.wall, self.steady)

    @property
    def lead(self) -> float:
        """How far the machine's clock was set forward since the store's clock began, in seconds.

        Differences below a second, as of another machine's clock, count as none.
        """
        lead = self.wall - self.steady
        return lead if abs(lead) >= 1.0 else 0.0
