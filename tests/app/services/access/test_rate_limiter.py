"""A key's rate and concurrency limits: a token bucket, and a count of requests in progress."""

from __future__ import annotations

import time

import pytest

from app.errors.refusals import TooManyRequests
from app.services.access.rate_limiter import RateLimiter


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    return clock


def taken(rate_limiter: RateLimiter, tries: int) -> int:
    count = 0
    for _ in range(tries):
        try:
            rate_limiter.take()
        except TooManyRequests:
            continue
        count += 1
        rate_limiter.release()
    return count


@pytest.mark.parametrize("rate", [1.0, 4.0, 250.0])
def test_each_second_allows_as_many_as_the_rate(clock: Clock, rate: float) -> None:
    rate_limiter = RateLimiter(rate, None)
    assert taken(rate_limiter, 1000) == rate  # a burst of one second's worth
    assert taken(rate_limiter, 1000) == 0
    for _ in range(5):
        clock.now += 1.0
        assert taken(rate_limiter, 1000) == rate
    clock.now += 1000.0
    assert taken(rate_limiter, 1000) == rate  # unused rate_limiter does not accumulate


def test_rates_below_one_per_second(clock: Clock) -> None:
    rate_limiter = RateLimiter(0.25, None)
    assert taken(rate_limiter, 10) == 1
    clock.now += 3.0
    with pytest.raises(TooManyRequests) as told:
        rate_limiter.take()
    assert told.value.headers() == {"Retry-After": "1"}
    clock.now += 1.0
    assert taken(rate_limiter, 10) == 1
    with pytest.raises(TooManyRequests) as told:
        rate_limiter.take()
    assert told.value.headers() == {"Retry-After": "4"}


def test_concurrent_requests_are_limited(clock: Clock) -> None:
    rate_limiter = RateLimiter(None, 2)
    rate_limiter.take()
    rate_limiter.take()
    with pytest.raises(TooManyRequests, match="2 requests under way"):
        rate_limiter.take()
    rate_limiter.release()
    rate_limiter.take()


def test_refused_requests_use_no_allowance(clock: Clock) -> None:
    rate_limiter = RateLimiter(1.0, 1)
    rate_limiter.take()
    clock.now += 1.0
    with pytest.raises(TooManyRequests, match="under way"):
        rate_limiter.take()
    rate_limiter.release()
    rate_limiter.take()
    rate_limiter.release()
