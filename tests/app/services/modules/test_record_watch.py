"""Two servers on one directory: each soon notices what the other has deleted or changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from served.network import BIND, NETWORK

PREDICT = {"inputs": {"data": [[1, 2, 3, 4, 5]]}}
NET = "/v1/modules/net"


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[list[httpx.AsyncClient]]:
    async with AsyncExitStack() as stack:
        clients = []
        for device in ("cpu(0)", "cpu(1)"):
            settings = Settings(
                data_dir=tmp_path,
                devices=(device,),
                executor_form="in_process",
                log_level="error",
            )
            app = create_app(settings)
            await stack.enter_async_context(app.router.lifespan_context(app))
            client = httpx.AsyncClient(
                transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1"
            )
            clients.append(await stack.enter_async_context(client))
        yield clients


async def create(client: httpx.AsyncClient) -> None:
    assert (await client.post("/v1/modules", json={"name": "net", "symbol": NETWORK})).is_success
    assert (await client.post(f"{NET}/bind", json=BIND)).is_success
    assert (await client.post(f"{NET}/params/init", json={})).is_success
    assert (await client.post(f"{NET}/predict", json=PREDICT)).is_success


async def soon(
    client: httpx.AsyncClient, is_right: Callable[[httpx.Response], bool]
) -> httpx.Response:
    async with asyncio.timeout(10):
        while not is_right(answer := await client.post(f"{NET}/predict", json=PREDICT)):
            await asyncio.sleep(0.02)
    return answer


async def test_a_module_deleted_at_another_server_is_no_longer_answered(servers) -> None:
    here, there = servers
    await create(here)
    assert (await there.delete(NET)).status_code == 204
    answer = await soon(here, lambda answer: answer.status_code == 404)
    assert "'net' does not exist" in answer.json()["detail"]
    (executor,) = (await here.get("/v1/executors")).json()["items"]
    assert executor["modules"] == []
    await create(here)  # the name is free again


async def test_a_module_made_anew_at_another_server_does_not_answer_with_the_old_one(
    servers,
) -> None:
    here, there = servers
    await create(here)
    assert (await there.delete(NET)).status_code == 204
    assert (
        await there.post("/v1/modules", json={"name": "net", "symbol": NETWORK})
    ).status_code == 201
    await soon(here, lambda answer: answer.status_code != 200)
    assert (await here.get(NET)).json()["stage"] == "created"


async def test_a_change_at_another_server_counts_here(servers) -> None:
    here, there = servers
    await create(here)
    changed = await there.patch(f"{NET}/serving", json={"max_batch_size": 1})
    assert changed.status_code == 200, changed.text
    two = {"inputs": [{"name": "data", "shape": [2, 5], "datatype": "FP32", "data": [1] * 10}]}
    async with asyncio.timeout(10):
        while (await here.post("/v2/models/net/infer", json=two)).status_code == 200:
            await asyncio.sleep(0.02)
