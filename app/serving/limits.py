"""What one connection, and all of them together, may take of the server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import uvicorn

from app.serving.fast_lane import FastLane
from app.serving.root_path import RootPath
from app.settings import Settings

__all__ = ["ConnectionLimits", "ServerConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of connections; see the settings of the same names."""

    max_header_bytes: int
    header_seconds: float
    body_idle_seconds: float
    min_body_rate: int
    write_idle_seconds: float
    max_connections: int
    max_followers: int
    max_unsent_bytes: int

    @classmethod
    def of(cls, settings: Settings) -> ConnectionLimits:
        """Return the limits that the settings say."""
        return cls(**{name: getattr(settings, name) for name in cls.__dataclass_fields__})


@dataclass(slots=True)
class ConnectionCounts:
    """What all connections of a server share."""

    followers: set[Any] = field(default_factory=set)
    is_ending: bool = False
    fields: list[tuple[bytes, bytes]] | None = None
    field_lines: bytes = b""


class ServerConfig(uvicorn.Config):
    """uvicorn's configuration, with what our protocol needs to know."""

    def __init__(self, app: Any, limits: ConnectionLimits, below: RootPath, **options: Any) -> None:
        """Prepare.

        Args:
            below: the sub-path that the server is under.
            options: uvicorn's own.
        """
        super().__init__(app, **options)
        self.limits = limits
        self.below = below
        self.counts = ConnectionCounts()
        self.lane: FastLane | None = None  # there is none before the application has started
