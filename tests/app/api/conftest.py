"""A server, and fixtures most route tests start from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.client import Client
from app.client.local_server import ServerProcess, running_server
from app.main import create_app
from app.settings import Settings
from served.declared import check_declared
from served.network import BIND, NETWORK
from served.processes import ENVIRONMENT


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of the server."""
    return tmp_path_factory.mktemp("api")


@pytest.fixture(scope="session")
def server(data_dir: Path) -> Iterator[ServerProcess]:
    """A server as users run it, its executor in its own process, shared by all route tests."""
    settings = ENVIRONMENT | {"MODSERVE_MAX_BODY_BYTES": str(1 << 20)}
    with running_server(data_dir, environment=settings) as server:
        yield server


@pytest.fixture
async def api(server: ServerProcess) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server without modules, jobs or datasets.

    Every answer it gets must be declared in the OpenAPI document.
    """
    hooks = {"response": [check_declared]}
    async with httpx.AsyncClient(base_url=server.url, timeout=60, event_hooks=hooks) as client:
        yield client
    with Client(server.url) as client:
        remove_all(client)


@pytest.fixture
async def inside(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server in this process, whose internals a test can reach."""
    app = create_app(Settings(data_dir=tmp_path, executor_form="in_process", log_level="error"))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield client


def remove_all(client: Client) -> None:
    """Cancel all jobs, and delete all modules and datasets."""
    for status in ("queued", "running", "paused"):
        for job in client.jobs(status=status):
            client.cancel(job["id"])
            client.wait(job["id"])
    for module in client.modules():
        client.delete_module(module["name"])
    for dataset in client.datasets():
        client.delete_dataset(dataset["name"])


async def post(api: httpx.AsyncClient, path: str, body: Any = None, status: int = 200) -> Any:
    """Post JSON, check the status, and return the parsed answer."""
    response = await api.post(path, json=body)
    assert response.status_code == status, response.text
    return response.json()


@pytest.fixture
async def created(api: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client, with a module ``net`` that is created."""
    await post(api, "/v1/modules", {"name": "net", "symbol": NETWORK}, 201)
    return api


@pytest.fixture
async def bound(created: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client, with a module ``net`` that is bound."""
    await post(created, "/v1/modules/net/bind", BIND)
    return created


@pytest.fixture
async def initialized(bound: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client, with a module ``net`` that is initialized."""
    await post(bound, "/v1/modules/net/params/init", {"initializer": "xavier", "seed": 1})
    return bound


@pytest.fixture
async def ready(initialized: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client, with a module ``net`` that is ready."""
    body = {"name": "sgd", "options": {"learning_rate": 0.5}}
    await post(initialized, "/v1/modules/net/optimizer", body)
    return initialized


@pytest.fixture
def network() -> dict[str, Any]:
    """Symbol JSON of one fully connected layer and SoftmaxOutput."""
    return NETWORK
