"""API keys: who may do what. What is stored of a key can verify it, and cannot be used as one."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from app.domain.codec import STRICT_FIELDS
from app.domain.names import OWNER_PATTERN

__all__ = ["ApiKey", "KeyList", "KeyScope", "digest_of", "is_text_of", "key_id_of", "new_key_text"]

_SECRET_BYTES = 32
_ID_BYTES = 6
_TEXT = re.compile(r"msk_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_NO_KEY = "0" * 64
"""No digest of a text anybody knows; compared in place of that of an unknown key."""


class KeyScope(StrEnum):
    """What a key may be used for."""

    METRICS = "metrics"
    READ = "read"
    INFER = "infer"
    TRAIN = "train"
    ADMIN = "admin"


_INCLUDED = {
    KeyScope.METRICS: {KeyScope.METRICS},
    KeyScope.READ: {KeyScope.READ, KeyScope.METRICS},
    KeyScope.INFER: {KeyScope.INFER},
    KeyScope.TRAIN: {KeyScope.TRAIN, KeyScope.READ, KeyScope.METRICS},
    KeyScope.ADMIN: set(KeyScope),
}
"""Training includes reading its results, and reading includes metrics; administration includes
everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as the server remembers it.

    Attributes:
        id: the part of the key that is not a secret.
        name: of its owner, for people.
        sha256: of the whole key, hexadecimal.
        created_at, expires_at: seconds since 1970; None if it never expires.
        rate: maximum average number of requests per second; None for no limit.
        concurrency: maximum number of concurrent requests; None for no limit.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    id: Annotated[str, Field(pattern="^[0-9a-f]{12}$")]
    name: Annotated[str, Field(pattern=f"^{OWNER_PATTERN}$")]
    scopes: tuple[KeyScope, ...]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    created_at: float
    expires_at: float | None = None
    rate: Annotated[float, Field(gt=0, le=1e9)] | None = None
    concurrency: Annotated[int, Field(ge=1, le=1_000_000)] | None = None

    def allows(self, any_of: Collection[KeyScope]) -> bool:
        """Return whether the key has one of some scopes."""
        return any(not _INCLUDED[scope].isdisjoint(any_of) for scope in self.scopes)

    def is_expired(self, now: float) -> bool:
        """Return whether it has expired at a time in seconds since 1970."""
        return self.expires_at is not None and now >= self.expires_at


@dataclass(frozen=True, slots=True)
class KeyList:
    """All keys of a server."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    keys: tuple[ApiKey, ...] = ()


def new_key_text() -> str:
    """Return a new key."""
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    return f"msk_{secrets.token_hex(_ID_BYTES)}_{secret}"


def key_id_of(text: str) -> str | None:
    """Return the id in the text of a key; None if it is not a key."""
    found = _TEXT.fullmatch(text)
    return None if found is None else found[1]


def digest_of(text: str) -> str:
    """Return what is stored of a key."""
    return hashlib.sha256(text.encode()).hexdigest()


def is_text_of(key: ApiKey | None, text: str) -> bool:
    """Return whether a text is that of a key, in constant time."""
    expected = _NO_KEY if key is None else key.sha256
    return hmac.compare_digest(digest_of(text), expected) and key is not None
