"""A look at all connections, about once a second."""

from __future__ import annotations

from collections.abc import Sequence

from app.server.limits import ConnectionLimits
from app.server.protocol import LimitedProtocol

__all__ = ["look_at_all"]


def look_at_all(
    connections: Sequence[LimitedProtocol], limits: ConnectionLimits, seconds: float
) -> None:
    """Look at each connection; if too much is unsent in total, drop the worst stalled clients."""
    unsent = 0
    for one in connections:
        one.look(seconds)
        unsent += one.unsent_bytes
    if unsent <= limits.max_unsent_bytes:
        return
    stalled = [one for one in connections if one.stalled_seconds > 0]
    for one in sorted(stalled, key=lambda one: one.unsent_bytes, reverse=True):
        unsent -= one.unsent_bytes
        one.drop()
        if unsent <= limits.max_unsent_bytes:
            return
