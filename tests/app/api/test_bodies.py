"""Request bodies: limited before they are read, strict, and read whatever type curl gives them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from app.api.bodies import announced_bytes
from app.client.local_server import ServerProcess
from app.main import create_app
from app.settings import Settings

LIMIT = 1 << 20


class Fake:
    """The part of a request that the code looks at."""

    def __init__(self, length: str | None) -> None:
        self.headers = {} if length is None else {"content-length": length}


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        *[("0", 0), ("1048576", LIMIT), (None, None), ("", None), ("-1", None), ("1.5", None)],
        *[("٣", None), ("9" * 19, None), ("1e3", None), (" 1", None)],
    ],
)
def test_announced_length(header: str | None, expected: int | None) -> None:
    assert announced_bytes(Fake(header)) == expected


async def test_a_body_over_the_limit_is_refused_by_its_length(server: ServerProcess) -> None:
    """The refusal comes before any of the body is sent."""
    host, port = httpx.URL(server.url).host, httpx.URL(server.url).port
    reader, writer = await asyncio.open_connection(host, port)
    head = f"POST /v1/modules HTTP/1.1\r\nHost: {host}\r\nContent-Length: {LIMIT + 1}\r\n\r\n"
    writer.write(head.encode())
    async with asyncio.timeout(20):
        answer, _, rest = (await reader.readuntil(b"}")).partition(b"\r\n\r\n")
    writer.close()
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert f'"limit":{LIMIT}'.encode() in rest
    assert b"MODSERVE_MAX_BODY_BYTES" in rest


async def test_a_body_without_a_length_is_read_up_to_the_limit(api: httpx.AsyncClient) -> None:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * (1 << 16)

    answer = await api.post("/v1/modules", content=body())
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


async def test_a_chunked_body_is_joined(initialized: httpx.AsyncClient) -> None:
    async def body() -> AsyncIterator[bytes]:
        for piece in (b'{"learning', b'_rate": ', b"0.25", b"}"):
            yield piece

    await initialized.post("/v1/modules/net/optimizer", json={"name": "sgd"})
    answer = await initialized.patch("/v1/modules/net/optimizer", content=body())
    assert answer.status_code == 200, answer.text
    described = await initialized.get("/v1/modules/net/optimizer")
    assert described.json()["learning_rate"] == 0.25


@pytest.mark.parametrize(
    "kind", ["application/json", "application/x-www-form-urlencoded", "text/plain", None]
)
async def test_json_is_read_as_curl_sends_it(created: httpx.AsyncClient, kind: str | None) -> None:
    body = b'{"data_shapes": [{"name": "data", "shape": [4, 5]}], "for_training": false}'
    headers = {"Content-Type": kind} if kind else {}
    answer = await created.post("/v1/modules/net/bind", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["stage"] == "bound"


@pytest.mark.parametrize(
    ("kind", "content", "status", "code"),
    [
        ("application/xml", b"<a/>", 415, "unsupported_media_type"),
        ("multipart/form-data; boundary=x", b"--x--", 415, "unsupported_media_type"),
        ("application/json", b"{'epoch': 1}", 400, "malformed"),
        ("application/json", b'{"epoch": NaN}', 400, "malformed"),
        ("application/json", b"\xff\xfe", 400, "malformed"),
        ("application/json", b"[" * 5000, 400, "malformed"),
        ("application/json", b"[1]", 422, "invalid"),
        ("application/json", b'"text"', 422, "invalid"),
        ("application/json", b"", 422, "invalid"),
        ("application/json", b'{"epoch": 1.5}', 422, "invalid"),
        ("application/json", b'{"epoch": 1, "epoc": 2}', 422, "invalid"),
    ],
)
async def test_other_bodies_are_refused(
    initialized: httpx.AsyncClient, kind: str, content: bytes, status: int, code: str
) -> None:
    answer = await initialized.post(
        "/v1/modules/net/load", content=content, headers={"Content-Type": kind}
    )
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text


async def test_bodies_in_memory_share_a_limit(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, executor_form="in_process", max_bodies_bytes=100_000)
    app = create_app(settings)
    may_end, has_begun = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b" " * 90_000
        has_begun.set()
        await may_end.wait()
        yield b"{}"

    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as api:
            first = asyncio.create_task(api.post("/v1/modules", content=slow()))
            await has_begun.wait()
            answer = await api.post("/v1/modules", content=b" " * 20_000)
            assert answer.status_code == 503, answer.text
            assert answer.headers["retry-after"]
            assert "MODSERVE_MAX_BODIES_BYTES" in answer.json()["detail"]
            assert (await api.post("/v1/modules", content=b"{}")).status_code == 422
            may_end.set()
            assert (await first).status_code == 422
            for _ in range(10):  # all of it has been released
                answer = await api.post("/v1/modules", content=b" " * 90_000 + b"{}")
                assert answer.status_code == 422, answer.text
