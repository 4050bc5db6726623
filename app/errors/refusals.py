"""Requests refused because of their API key, or because they have none.

ServiceError
├── Unauthorized           401  no valid key was sent
├── Forbidden              403  the key has not the scope
└── Unavailable
    └── TooManyRequests    429  more than the key may ask; says when to try again
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.errors.tree import ServiceError, Unavailable

__all__ = ["Forbidden", "TooManyRequests", "Unauthorized"]


class Unauthorized(ServiceError):
    """The server has keys, and the request brings none that is valid."""

    def headers(self) -> dict[str, str]:
        """Return what kind of key is asked for."""
        return {"WWW-Authenticate": 'Bearer realm="modserve"'}


class Forbidden(ServiceError):
    """The key is valid and is not for this."""

    def __init__(self, what: str, any_of: Sequence[str]) -> None:
        scopes = " or ".join(any_of)
        super().__init__(
            f"{what} needs a key of scope {scopes}, which this key has not; "
            f"'modserve keys add --scope {any_of[0]}' makes one"
        )
        self.any_of = tuple(any_of)

    def extensions(self) -> dict[str, Any]:
        """Return the scopes, one of which is missing."""
        return {"missing_scope": list(self.any_of)}


class TooManyRequests(Unavailable):
    """A key asks for more, or more at a time, than it may."""
