"""A database that turns out to be corrupt while the server runs."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import event
from sqlalchemy.exc import DatabaseError

from app.main import create_app
from app.settings import Settings
from served.network import FEATURES, NETWORK, examples_npz, fit_body


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[FastAPI]:
    """A server in this process."""
    app = create_app(Settings(data_dir=tmp_path, executor_form="in_process", log_level="error"))
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
async def api(server: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=server, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


@contextmanager
def damaged(server: FastAPI) -> Iterator[None]:
    """Make every statement fail the way SQLite reports a corrupt page."""

    def fail(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        found = sqlite3.DatabaseError("database disk image is malformed")
        found.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise DatabaseError(statement, parameters, found)

    engine = server.state.services.modules._store._engine
    event.listen(engine, "before_cursor_execute", fail)
    try:
        yield
    finally:
        event.remove(engine, "before_cursor_execute", fail)


async def job_when(api: httpx.AsyncClient, path: str, holds: Callable[[Any], Any]) -> Any:
    """Wait until a predicate holds for a job, and return it."""
    async with asyncio.timeout(60):
        while not holds(found := (await api.get(path)).json()):
            assert found["status"] in ("queued", "running"), found
            await asyncio.sleep(0.01)
    return found


async def test_callers_get_an_error_and_work_resumes_once_the_database_is_readable(
    server: FastAPI, api: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await api.post("/v1/modules", json={"name": "net", "symbol": NETWORK})).is_success
    assert (await api.put("/v1/datasets/examples", content=examples_npz())).is_success
    submitted = await api.post("/v1/modules/net/fit", json=fit_body(epochs=200))
    assert submitted.status_code == 202, submitted.text
    job = submitted.headers["location"]
    await job_when(api, job, lambda found: found["progress"])
    with damaged(server), caplog.at_level(logging.ERROR):
        for path in ("/v1/modules/net", "/v1/jobs", job, "/readyz"):
            refused = await api.get(path)
            assert refused.status_code == 503, refused.text
            assert refused.headers["retry-after"]
            assert refused.json()["code"] == "unavailable"
            assert refused.json()["detail"] == (
                "the server's database is damaged; its log tells what to do"
            )
        async with asyncio.timeout(60):
            while "what an executor reports waits" not in caplog.text:
                await asyncio.sleep(0.01)
    assert "move " in caplog.text
    found = await job_when(api, job, lambda found: found["status"] == "succeeded")
    assert found["attempt"] == 1


async def test_a_server_starts_on_damaged_rows_and_names_them(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, executor_form="in_process", log_level="error")
    async with serving(settings) as api:
        for name in ("net", "other"):
            made = await api.post("/v1/modules", json={"name": name, "symbol": NETWORK})
            assert made.is_success
        assert (await api.put("/v1/datasets/examples", content=examples_npz())).is_success
        before = (await api.get("/v1/modules/net")).json()
        for name in ("net", "other"):
            body = fit_body(epochs=1)
            job = (await api.post(f"/v1/modules/{name}/fit", json=body)).headers["location"]
            await job_when(api, job, lambda found: found["status"] == "succeeded")
    with closing(sqlite3.connect(tmp_path / "modserve.db")) as connection, connection:
        connection.execute("UPDATE modules SET spec = '{' || spec WHERE name = 'net'")
        connection.execute("UPDATE jobs SET result = CAST(x'7bff7d' AS TEXT) WHERE id = 1")
        connection.execute("UPDATE datasets SET arrays = ''")
    async with serving(settings) as api:
        ready = await api.get("/readyz")
        assert ready.status_code == 200
        for name in ("module net", "dataset examples"):
            assert any(one.startswith(f"{name}: damaged") for one in ready.json()["warnings"])
        after = (await api.get("/v1/modules/net")).json()
        assert after["data_names"] == before["data_names"]
        assert [job["id"] for job in (await api.get("/v1/jobs")).json()["items"]] == [2]
        refused = await api.get("/v1/jobs/1")
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
        assert "delete the job" in refused.json()["detail"]
        assert (await api.delete("/v1/jobs/1")).status_code == 204
        data = {"inputs": {"data": [[0.0] * FEATURES]}}
        assert (await api.post("/v1/modules/net/predict", json=data)).is_success


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(settings)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        yield client
