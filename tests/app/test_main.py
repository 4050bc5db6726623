"""The application: nothing is opened before its lifespan, and all is closed after it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.api.openapi import build_openapi
from app.main import create_app, openapi_text
from app.settings import Settings


def settings(folder: Path) -> Settings:
    return Settings(data_dir=folder / "var", executor_form="in_process", log_level="error")


def test_creating_the_application_opens_nothing(tmp_path: Path) -> None:
    before = threading.active_count()
    app = create_app(settings(tmp_path))
    assert app.openapi()["info"]["title"] == "modserve"
    assert not list(tmp_path.iterdir())
    assert threading.active_count() == before


async def test_the_lifespan_opens_and_closes_everything(tmp_path: Path) -> None:
    app = create_app(settings(tmp_path))
    before = threading.active_count()
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            assert (await client.get("/readyz")).json()["status"] == "ready"
        assert (tmp_path / "var" / "modserve.db").exists()
        assert threading.active_count() > before
    executors = [one.name for one in threading.enumerate() if one.name.startswith("executor")]
    assert executors == []


async def test_a_data_directory_can_be_served_again(tmp_path: Path) -> None:
    for names in (["a"], ["a", "b"]):
        app = create_app(settings(tmp_path))
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://127.0.0.1"
            ) as client:
                symbol = {
                    "nodes": [{"op": "null", "name": "data", "inputs": []}],
                    "arg_nodes": [0],
                    "heads": [[0, 0, 0]],
                }
                body = {"name": names[-1], "symbol": symbol}
                assert (await client.post("/v1/modules", json=body)).status_code == 201
                listed = (await client.get("/v1/modules")).json()["items"]
                assert [one["name"] for one in listed] == names


async def test_damage_is_reported_while_the_rest_is_served(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        for name in ("a", "b"):
            url = f"/v1/datasets/{name}?kind=csv"
            assert (await client.put(url, content=b"1,2\n")).status_code == 200
    next((tmp_path / "var" / "datasets").glob("a-*.csv")).write_bytes(b"")
    async with served(tmp_path) as client:
        ready = (await client.get("/readyz")).json()
        (warning,) = ready["warnings"]
        assert ready["status"] == "ready"
        assert warning.startswith("dataset a: damaged: its file a-")
        assert (await client.get("/v1/datasets/b/preview")).status_code == 200
        refused = await client.get("/v1/datasets/a/preview")
        assert (refused.status_code, refused.json()["code"]) == (422, "damaged")
        assert "upload it again" in refused.json()["detail"]


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Serve a data directory in this process and yield a client."""
    app = create_app(settings(folder))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield client


async def test_a_data_directory_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "var").write_text("a file")
    app = create_app(settings(tmp_path))
    with pytest.raises(FileExistsError):
        await app.router.lifespan_context(app).__aenter__()


@pytest.mark.parametrize("path", ["/docs", "/openapi.json"])
async def test_the_documentation_is_served(tmp_path: Path, path: str) -> None:
    transport = httpx.ASGITransport(create_app(settings(tmp_path)))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        assert (await client.get(path)).status_code == 200


async def test_the_document_is_built_once_and_not_at_startup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def build(app: FastAPI) -> dict[str, Any]:
        threads.append(threading.current_thread())
        return build_openapi(app)

    monkeypatch.setattr("app.main.build_openapi", build)
    async with served(tmp_path) as client:
        assert (await client.get("/v1/modules?limit=5")).status_code == 200
        assert threads == []
        answers = await asyncio.gather(*(client.get("/openapi.json") for _ in range(3)))
        answers.append(await client.get("/openapi.json"))
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread(), "it blocked the event loop"
    assert all(one.json() == json.loads(openapi_text()) for one in answers)


async def test_misspelt_query_parameters_are_refused(tmp_path: Path) -> None:
    app = create_app(settings(tmp_path))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            answer = await client.get("/v1/modules?limt=5")
            assert answer.status_code == 422
            assert answer.json()["errors"][0]["field"] == "limt"
            assert "cursor, limit" in answer.json()["detail"]
            assert (await client.get("/v1/modules?limit=5")).status_code == 200
