"""Every request has an id and is counted by route, whatever happens to it."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import structlog
from prometheus_client import REGISTRY
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from app.api.middleware import RequestContext
from app.api.security.cross_origin import CrossOrigin

NO_ORIGIN = CrossOrigin(())


async def ask(application: Any, path: str = "/", **options: Any) -> httpx.Response:
    transport = httpx.ASGITransport(
        RequestContext(application, NO_ORIGIN), raise_app_exceptions=False
    )
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.get(path, **options)


async def greet(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the request's id."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["state"]["request_id"].encode()})


async def test_a_request_without_an_id_gets_one() -> None:
    first, second = await ask(greet), await ask(greet)
    assert len(first.text) == 32
    assert first.text != second.text
    assert first.headers["x-request-id"] == first.text
    assert re.fullmatch(r"app;dur=\d+\.\d\d", first.headers["server-timing"])


async def test_the_clients_id_is_kept() -> None:
    answer = await ask(greet, headers={"X-Request-Id": "order-66_a.b"})
    assert answer.text == answer.headers["x-request-id"] == "order-66_a.b"


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "a;b", "<script>", "é", "a\tb"])
async def test_an_id_of_other_characters_is_replaced(given: str) -> None:
    answer = await ask(greet, headers={"X-Request-Id": given.encode("latin-1")})
    assert answer.text != given
    assert len(answer.text) == 32


def count(route: str, status: int) -> float:
    """Return how often this process answered a route with a status."""
    labels = {"method": "GET", "route": route, "status": str(status)}
    return REGISTRY.get_sample_value("modserve_http_requests_total", labels) or 0.0


async def counted_by_server(api: httpx.AsyncClient, route: str, status: int) -> float:
    """Return how often a route was answered with a status, according to /metrics."""
    labels = f'{{method="GET",route="{route}",status="{status}"}}'
    counted = re.compile(rf"^modserve_http_requests_total{re.escape(labels)} (\S+)$", re.MULTILINE)
    found = counted.search((await api.get("/metrics")).text)
    return 0.0 if found is None else float(found[1])


async def test_requests_are_counted_by_route_not_by_path(api: httpx.AsyncClient) -> None:
    before = await counted_by_server(api, "/v1/jobs/{job}", 404)
    for job in (1001, 1002, 1003):
        assert (await api.get(f"/v1/jobs/{job}")).status_code == 404
    assert await counted_by_server(api, "/v1/jobs/{job}", 404) == before + 3
    text = (await api.get("/metrics")).text
    assert "/v1/jobs/100" not in text
    assert 'modserve_http_request_seconds_count{method="GET",route="/v1/jobs/{job}"}' in text


async def test_executors_and_jobs_are_measured(api: httpx.AsyncClient) -> None:
    text = (await api.get("/metrics")).text
    assert 'modserve_executor_ready{executor="cpu(0)"} 1.0' in text
    assert 'modserve_jobs{status="queued"} 0.0' in text


async def test_unknown_paths_are_counted_as_one(api: httpx.AsyncClient) -> None:
    before = await counted_by_server(api, "unknown", 404)
    for path in ("/wp-login.php", "/v2/../etc", "/x" * 50):
        assert (await api.get(path)).status_code == 404
    assert await counted_by_server(api, "unknown", 404) == before + 3


async def test_a_request_that_fails_is_counted_as_500() -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("broken")

    before = count("unknown", 500)
    assert (await ask(fail)).status_code == 500
    assert count("unknown", 500) == before + 1


async def test_a_failure_after_the_response_started_is_raised() -> None:
    async def fail_late(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await RequestContext(fail_late, NO_ORIGIN)(
            {"type": "http", "method": "GET", "path": "/", "headers": []}, receive_nothing, drop
        )


async def test_a_client_disconnect_is_counted_but_not_a_failure() -> None:
    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()

    before = count("unknown", 499)
    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    with structlog.testing.capture_logs() as logs:
        await RequestContext(read, NO_ORIGIN)(scope, receive_nothing, drop)
    assert count("unknown", 499) == before + 1
    assert not [one for one in logs if one["event"] == "request failed"]


async def receive_nothing() -> Message:
    """Report that the client has disconnected."""
    return {"type": "http.disconnect"}


async def drop(message: Message) -> None:
    """Send nothing."""


@pytest.fixture
def all_levels() -> Iterator[None]:
    """Log at debug level, whatever an earlier server configured."""
    config, root = structlog.get_config(), logging.getLogger()
    level = root.level
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG))
    root.setLevel(logging.DEBUG)
    yield
    root.setLevel(level)
    structlog.configure(**config)


@pytest.mark.usefixtures("all_levels")
async def test_requests_are_logged_with_their_id() -> None:
    with structlog.testing.capture_logs() as logs:
        await ask(greet, "/v1/modules?limit=1", headers={"X-Request-Id": "abc"})
    (entry,) = logs
    assert entry["log_level"] == "debug"
    assert (entry["method"], entry["path"], entry["status"]) == ("GET", "/v1/modules", 200)
    assert entry["request_id"] == "abc"
    assert entry["milliseconds"] >= 0


async def test_other_protocols_pass_through() -> None:
    seen = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    scope = {"type": "lifespan"}
    await RequestContext(application, NO_ORIGIN)(scope, None, None)
    assert seen == [{"type": "lifespan"}]


async def test_a_request_cut_off_by_shutdown_is_told_to_retry() -> None:
    has_begun = asyncio.Event()
    sent: list[Message] = []

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        has_begun.set()
        await asyncio.Event().wait()

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}
    task = asyncio.create_task(RequestContext(wait, NO_ORIGIN)(scope, receive, send))
    await has_begun.wait()
    task.cancel()  # as uvicorn does when its shutdown timeout is over
    await task
    assert sent[0]["status"] == 503
    assert b"retry-after" in dict(sent[0]["headers"])


async def test_a_page_of_an_allowed_origin_can_read_even_a_failure() -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("a bug")

    for allowed, shown in ((("https://lab.example",), "https://lab.example"), (("*",), "*")):
        guarded = RequestContext(fail, CrossOrigin(allowed))
        transport = httpx.ASGITransport(guarded, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as api:
            answer = await api.get("/", headers={"Origin": "https://lab.example"})
        assert answer.status_code == 500
        assert answer.headers["access-control-allow-origin"] == shown
        assert answer.headers["vary"] == "Origin"
