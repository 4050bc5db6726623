"""Rate and concurrency limits of API keys."""

from __future__ import annotations

import time

from app.domain.api_key import ApiKey
from app.errors.refusals import TooManyRequests

__all__ = ["RateLimiter"]

_RETRY_SECONDS = 1.0
"""Suggested to a key that has too many requests in progress, whose ends nobody can predict."""


class RateLimiter:
    """A token bucket that holds one second's worth of requests, and a count of requests in
    progress."""

    __slots__ = ("_concurrency", "_filled_at", "_most", "_rate", "_tokens", "_under_way")

    def __init__(self, rate: float | None, concurrency: int | None) -> None:
        """Start with a full bucket.

        Args:
            rate: requests per second; None for no limit.
            concurrency: requests at a time; None for no limit.
        """
        self._rate = rate
        self._concurrency = concurrency
        self._most = self._tokens = max(1.0, rate or 0.0)
        self._filled_at = time.monotonic()
        self._under_way = 0

    @classmethod
    def of(cls, key: ApiKey) -> RateLimiter | None:
        """Return a key's rate limiter; None if it is unlimited."""
        if key.rate is None and key.concurrency is None:
            return None
        return cls(key.rate, key.concurrency)

    def take(self) -> None:
        """Begin a request; ``release`` ends it.

        Raises:
            TooManyRequests: the request must not begin now, and does not count.
        """
        if self._concurrency is not None and self._under_way >= self._concurrency:
            raise TooManyRequests(
                f"the key may have {self._concurrency:,} requests under way at a time; wait for "
                "an answer before the next",
                retry_after_seconds=_RETRY_SECONDS,
            )
        if self._rate is not None:
            self._take_token(self._rate)
        self._under_way += 1

    def release(self) -> None:
        """End a request."""
        self._under_way -= 1

    def _take_token(self, rate: float) -> None:
        now = time.monotonic()
        self._tokens = min(self._most, self._tokens + (now - self._filled_at) * rate)
        self._filled_at = now
        if self._tokens < 1.0:
            raise TooManyRequests(
                f"the key may ask {rate:g} times a second; ask more slowly",
                retry_after_seconds=(1.0 - self._tokens) / rate,
            )
        self._tokens -= 1.0
