"""Sessions of browsers: each stands for the API key that somebody logged in with.

They exist only in memory, so a restart ends them. A browser stores a session's token, never the
key.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import NamedTuple

from app.domain.api_key import ApiKey
from app.services.access.key_ring import KeyRing

__all__ = ["Sessions"]

_SECRET_BYTES = 32
_LONGEST_SECONDS = 7 * 24 * 3600
_MOST = 10_000


class _Session(NamedTuple):
    key: ApiKey
    ends_at: float


class Sessions:
    """Creates sessions and finds their keys."""

    def __init__(self, ring: KeyRing, most: int = _MOST) -> None:
        """Start without sessions.

        Args:
            ring: knows whether a key is still valid.
            most: limit on sessions; a new one evicts the oldest.
        """
        self._ring = ring
        self._most = most
        self._sessions: dict[bytes, _Session] = {}

    def begin(self, key: ApiKey) -> str:
        """Begin a session for an identified key; return its token."""
        while len(self._sessions) >= self._most:
            del self._sessions[next(iter(self._sessions))]
        token = secrets.token_urlsafe(_SECRET_BYTES)
        self._sessions[_digest(token)] = _Session(key, time.monotonic() + _LONGEST_SECONDS)
        return token

    def key_of(self, token: str) -> ApiKey | None:
        """Return the key of a session; None if the session has ended or the key is invalid now."""
        found = self._sessions.get(_digest(token))
        if found is None:
            return None
        if time.monotonic() < found.ends_at and self._ring.is_valid(found.key):
            return found.key
        self.end(token)
        return None

    def end(self, token: str) -> None:
        """End a session, if it exists."""
        self._sessions.pop(_digest(token), None)


def _digest(token: str) -> bytes:
    # Tokens are looked up by digest, so that timing reveals nothing about existing ones.
    return hashlib.sha256(token.encode()).digest()
