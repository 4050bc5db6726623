"""Memory of request bodies: counted over all requests, released when they end."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.requests import Request

from app.api.body_memory import BodyMemory
from app.errors.tree import Unavailable


def new_request() -> Request:
    return Request({"type": "http", "headers": [], "state": {}})


def end(request: Request) -> None:
    calls: list[Any] = request.scope["state"].get("at_end", [])
    for call in calls:
        call()


def test_bodies_of_all_requests_are_counted_and_released() -> None:
    memory = BodyMemory(100_000)
    first, second = new_request(), new_request()
    memory.take(first, 60_000)
    with pytest.raises(Unavailable, match="MODSERVE_MAX_BODIES_BYTES"):
        memory.take(second, 60_000)
    memory.take(second, 30_000)
    end(second)
    end(first)
    memory.take(new_request(), 90_000)


def test_a_body_in_tiny_chunks_is_counted_at_its_real_cost() -> None:
    memory, request = BodyMemory(100_000), new_request()

    def take_in_tiny_chunks() -> None:
        for _ in range(10_000):
            memory.take(request, 1)

    with pytest.raises(Unavailable):
        take_in_tiny_chunks()
    assert len(request.scope["state"]["at_end"]) == 1
    end(request)
    memory.take(new_request(), 90_000)
