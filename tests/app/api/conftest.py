"""A server in this process, and what most tests of its routes begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from served.network import BIND, NETWORK


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server whose executor is a thread of this process."""
    settings = Settings(
        data_dir=tmp_path, executor_form="in_process", max_body_bytes=1 << 20, log_level="error"
    )
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            yield client


async def post(api: httpx.AsyncClient, path: str, body: Any = None, status: int = 200) -> Any:
    """Post JSON and return the parsed answer, whose status must be this."""
    response = await api.post(path, json=body)
    assert response.status_code == status, response.text
    return response.json()


@pytest.fixture
async def created(api: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client, with a module ``net`` that is CREATED."""
    await post(api, "/v1/modules", {"name": "net", "symbol": NETWORK}, 201)
    return api


@pytest.fixture
async def bound(created: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client, with a module ``net`` that is BOUND."""
    await post(created, "/v1/modules/net/bind", BIND)
    return created


@pytest.fixture
async def initialized(bound: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client, with a module ``net`` that is INITIALIZED."""
    await post(bound, "/v1/modules/net/params/init", {"initializer": "xavier", "seed": 1})
    return bound


@pytest.fixture
async def ready(initialized: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client, with a module ``net`` that is READY."""
    body = {"name": "sgd", "options": {"learning_rate": 0.5}}
    await post(initialized, "/v1/modules/net/optimizer", body)
    return initialized


@pytest.fixture
def network() -> dict[str, Any]:
    """Symbol JSON of one fully connected layer and SoftmaxOutput."""
    return NETWORK
