"""Every GET that ends has a HEAD, with the same fields and no body."""

from __future__ import annotations

import httpx
import pytest

from app.client.local_server import ServerProcess, running_server
from served.document import openapi_document
from served.processes import ENVIRONMENT
from served.sockets import connect, head

PATHS = [
    *("/metrics", "/readyz", "/livez", "/v1/modules", "/v1/datasets", "/v1/jobs", "/v1/executors"),
    *("/v2", "/v2/health/ready", "/v2/health/live", "/v1/errors", "/v1/modules/none", "/docs"),
]
OF_ONE_ANSWER = {"date", "x-request-id", "server-timing"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    with running_server(tmp_path_factory.mktemp("heads"), environment=ENVIRONMENT) as server:
        yield server


@pytest.mark.parametrize("path", PATHS)
def test_a_head_has_the_fields_of_a_get(server: ServerProcess, path: str) -> None:
    get, asked = httpx.get(server.url + path), httpx.head(server.url + path)
    assert (asked.status_code, asked.content) == (get.status_code, b"")
    of_get, of_head = (
        {name: value for name, value in one.headers.items() if name not in OF_ONE_ANSWER}
        for one in (get, asked)
    )
    if path == "/metrics":  # which changes with each request
        assert of_get.pop("content-length")
        assert of_head.pop("content-length")
    assert of_head == of_get


def test_nothing_follows_a_head(server: ServerProcess) -> None:
    with connect(server.url) as sock:
        sock.sendall(head("HEAD /v1/modules") + head("GET /livez", "Connection: close"))
        received = b"".join(iter(lambda: sock.recv(1 << 16), b""))
    first, _, rest = received.partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 200")
    assert rest.startswith(b"HTTP/1.1 200")


async def test_every_path_has_one(ready: httpx.AsyncClient) -> None:
    document = openapi_document()
    streams = {"/v1/events", "/v1/jobs/{job}/events"}
    with_get = {path for path, operations in document["paths"].items() if "get" in operations}
    for path in with_get:
        answer = await ready.delete(path.replace("{job}", "1")) if path in streams else None
        asked = await ready.head(path.replace("{job}", "1").replace("{", "").replace("}", ""))
        assert (asked.status_code == 405) == (path in streams), path
        assert answer is None or answer.headers["allow"] == "GET"
