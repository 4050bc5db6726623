"""Moments at which the clocks agree."""

from __future__ import annotations

from app.domain.moment import Moment

__all__ = ["at"]


def at(seconds: float) -> Moment:
    """Return a moment that is the same by all clocks."""
    return Moment(seconds, seconds)
