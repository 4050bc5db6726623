"""Errors as RFC 9457 problems on every path, without the server's internals."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from typing import Annotated

import httpx
import pytest
import structlog
from fastapi import FastAPI, Query

from app.api.middleware import RequestContext
from app.api.problems import PROBLEM_JSON, install_error_handlers
from app.api.security.cross_origin import CrossOrigin
from app.errors.tree import ExecutorGone, HostError, Invalid, TooLarge, Unavailable, WrongStage
from app.executor.faults import to_host_error
from core.errors import ShapeError

ERRORS: dict[str, Exception] = {
    "invalid": Invalid("data_shapes[0].shape", [1, -1], "sizes of at least 1"),
    "stage": WrongStage("forward", needs="bound", is_="created", call="POST /v1/modules/m/bind"),
    "large": TooLarge("body", got=2_000_000, limit=1024, setting="MODSERVE_MAX_BODY_BYTES"),
    "unavailable": Unavailable("the executor restarts", retry_after_seconds=2.6),
    "gone": ExecutorGone("cpu(0) died"),
    "host": HostError("invalid", "data: got shape (1,), expected (2,)", "data"),
    "strange": HostError("a code of nobody", "secret", "data"),
    "engine": to_host_error(ShapeError("Convolution 'c1': data has 4 channels")),
    "full": OSError(errno.ENOSPC, "No space left on device", "/home/secret"),
    "file": OSError(errno.EIO, "Input/output error", "/home/secret"),
    "bug": ZeroDivisionError("/home/secret/path.py"),
}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application that raises the error the path names."""
    app = FastAPI()
    app.add_middleware(RequestContext, cross_origin=CrossOrigin(()))
    install_error_handlers(app)

    @app.get("/v1/raise/{name}")
    async def fail(name: str, count: Annotated[int, Query(ge=1)] = 1) -> None:
        raise ERRORS[name]

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


async def problem(client: httpx.AsyncClient, path: str, status: int, code: str) -> dict:
    """Return the problem a request is refused with, after checking what all problems share."""
    answer = await client.get(path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM_JSON
    body = answer.json()
    assert (body["status"], body["code"]) == (status, code)
    assert body["type"] == f"/v1/errors/{code}"
    assert body["instance"] == path.partition("?")[0]
    assert body["request_id"] == answer.headers["x-request-id"]
    assert body["title"]
    body["retry_after"] = answer.headers.get("retry-after")
    return body


@pytest.mark.parametrize(
    ("name", "status", "code", "detail"),
    [
        ("invalid", 422, "invalid", "data_shapes[0].shape: got [1, -1], expected sizes of at"),
        ("stage", 409, "wrong_stage", "first call POST /v1/modules/m/bind"),
        ("large", 413, "too_large", "got 2,000,000, the limit is 1,024"),
        ("unavailable", 503, "unavailable", "the executor restarts"),
        ("gone", 503, "executor_gone", "cpu(0) died"),
        ("full", 507, "storage_full", "delete datasets, checkpoints or modules"),
        ("host", 422, "invalid", "data: got shape (1,)"),
        ("engine", 422, "invalid_shape", "Convolution 'c1': data has 4 channels"),
    ],
)
async def test_errors_become_problems(
    client: httpx.AsyncClient, name: str, status: int, code: str, detail: str
) -> None:
    body = await problem(client, f"/v1/raise/{name}", status, code)
    assert detail in body["detail"]


async def test_invalid_fields_are_named(client: httpx.AsyncClient) -> None:
    body = await problem(client, "/v1/raise/invalid", 422, "invalid")
    assert body["errors"] == [
        {
            "field": "data_shapes[0].shape",
            "got": "[1, -1]",
            "expected": "sizes of at least 1",
            "hint": "",
        }
    ]
    assert (await problem(client, "/v1/raise/host", 422, "invalid"))["errors"][0]["field"] == "data"


async def test_members_specific_to_one_error(client: httpx.AsyncClient) -> None:
    stage = await problem(client, "/v1/raise/stage", 409, "wrong_stage")
    assert (stage["needs"], stage["is"]) == ("bound", "created")
    assert (await problem(client, "/v1/raise/large", 413, "too_large"))["limit"] == 1024
    unavailable = await problem(client, "/v1/raise/unavailable", 503, "unavailable")
    assert unavailable["retry_after"] == "3"
    assert (await problem(client, "/v1/raise/gone", 503, "executor_gone"))["retry_after"] == "1"


@pytest.mark.parametrize(
    ("name", "secret"), [("bug", "/home"), ("strange", "secret"), ("file", "/home")]
)
async def test_internal_errors_reveal_nothing_and_are_logged(
    client: httpx.AsyncClient, name: str, secret: str
) -> None:
    with structlog.testing.capture_logs() as logs:
        body = await problem(client, f"/v1/raise/{name}", 500, "internal")
    assert secret not in str(body)
    assert "request_id" in body["detail"]
    (entry,) = (one for one in logs if one["event"] == "request failed")
    assert entry["request_id"] == body["request_id"]
    assert entry["exc_info"] is ERRORS[name]


async def test_fastapis_own_errors_have_the_same_form(client: httpx.AsyncClient) -> None:
    body = await problem(client, "/v1/raise/bug?count=0", 422, "invalid")
    assert body["errors"][0]["field"] == "count"
    assert "greater than or equal to 1" in body["errors"][0]["expected"]
    nowhere = await problem(client, "/v1/nowhere", 404, "not_found")
    assert "/docs lists the paths" in nowhere["detail"]
    answer = await client.post("/v1/raise/bug")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert answer.json()["code"] == "method_not_allowed"
