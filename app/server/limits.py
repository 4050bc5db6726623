"""Limits on one connection, and on all of them together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import uvicorn

from app.server.fast_path import AnswerFields, FastPath
from app.server.root_path import RootPath
from app.settings import Settings

__all__ = ["ConnectionLimits", "ServerConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Connection limits; see the settings of the same names."""

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
        """Return the limits in the settings."""
        return cls(**{name: getattr(settings, name) for name in cls.__dataclass_fields__})


@dataclass(slots=True)
class ConnectionCounts:
    """State shared by all connections of a server.

    Attributes:
        followers: connections that follow a stream of events, which have a limit of their own.
        is_ending: whether the server is shutting down.
        fields: uvicorn's fields of each response, ``Date`` among them.
        field_lines: the same as bytes.
    """

    followers: set[Any] = field(default_factory=set)
    is_ending: bool = False
    fields: list[tuple[bytes, bytes]] | None = None
    field_lines: bytes = b""


class ServerConfig(uvicorn.Config):
    """uvicorn's configuration, extended by what our protocol needs."""

    def __init__(
        self,
        app: Any,
        limits: ConnectionLimits,
        below: RootPath,
        fields: AnswerFields,
        **options: Any,
    ) -> None:
        """Prepare.

        Args:
            below: the sub-path that the server is mounted under.
            fields: returns what every answer to a request has.
            options: uvicorn's own.
        """
        super().__init__(app, **options)
        self.limits = limits
        self.below = below
        self.fields = fields
        self.counts = ConnectionCounts()
        self.fast_path: FastPath | None = None  # None until the application has started
