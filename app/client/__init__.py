"""Python clients of the server: ``Client`` is synchronous, ``AsyncClient`` asynchronous."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.client.client import Client
from app.client.errors import (
    BadRequest,
    ClientError,
    Conflict,
    Forbidden,
    Invalid,
    InvalidKey,
    NotFound,
    PreconditionFailed,
    ServerError,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnsupportedMedia,
)

if TYPE_CHECKING:
    from app.client.async_client import AsyncClient

__all__ = [
    "AsyncClient",
    "BadRequest",
    "Client",
    "ClientError",
    "Conflict",
    "Forbidden",
    "Invalid",
    "InvalidKey",
    "NotFound",
    "PreconditionFailed",
    "ServerError",
    "TooLarge",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "UnsupportedMedia",
]


def __getattr__(name: str) -> Any:
    if name == "AsyncClient":  # asyncio takes as long to import as all the rest
        from app.client.async_client import AsyncClient

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
