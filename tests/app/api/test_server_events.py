"""Events of modules and executors, as followers of /v1/events see them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from served.network import BIND, NETWORK


async def events(api: httpx.AsyncClient, until: str, **query: Any) -> list[dict[str, Any]]:
    """Follow /v1/events and return everything up to the first event of a type."""
    found = []
    async with asyncio.timeout(60), api.stream("GET", "/v1/events", params=query) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data:"):
                found.append(json.loads(line.removeprefix("data:")))
                if found[-1]["type"] == until:
                    return found
    raise AssertionError("the stream ended")


async def test_a_module_is_followed_from_creation_to_deletion(api: httpx.AsyncClient) -> None:
    async def call(verb: str, path: str, body: Any = None) -> None:
        answer = await api.request(verb, path, json=body)
        assert answer.is_success, answer.text

    await call("POST", "/v1/modules", {"name": "told", "symbol": NETWORK})
    await call("POST", "/v1/modules/told/bind", BIND)
    await call("POST", "/v1/modules/told/params/init", {"initializer": "xavier", "seed": 1})
    for epoch in (1, 2):
        await call("POST", "/v1/modules/told/checkpoints", {"epoch": epoch})
    await call("POST", "/v1/modules/told/load", {"epoch": "1"})
    await call("POST", "/v1/modules/told/versions/2/promote")
    await call("POST", "/v1/modules/told/rollback")
    await call("PATCH", "/v1/modules/told/serving", {"max_batch_size": 16})
    await call("POST", "/v2/repository/models/told/unload")
    await call("POST", "/v1/modules/told/restore")
    await call("DELETE", "/v1/modules/told")
    found = await events(api, "module_deleted", module="told")
    assert [one["type"] for one in found] == [
        "module_created",
        "module_bound",
        "module_params_changed",
        "module_checkpointed",
        "module_checkpointed",
        "module_loaded",
        "module_promoted",
        "module_rolled_back",
        "module_changed",
        "module_changed",
        "module_evicted",
        "module_restored",
        "module_deleted",
    ]
    assert {one["module"] for one in found} == {"told"}
    assert {one["executor"] for one in found} == {"cpu(0)"}
    assert {(one["job_id"], one["attempt"], one["status"]) for one in found} == {(None,) * 3}
    told = {one["type"]: one["data"] for one in found}
    assert told["module_checkpointed"] == {"checkpoint": "2", "job_id": None}
    assert told["module_loaded"] == {"checkpoint": "1", "optimizer_states": False}
    assert told["module_promoted"] == {"version": "2", "before": "live"}
    assert told["module_changed"] == {"fields": ["serving"]}


async def test_filtering_by_type_and_executor(api: httpx.AsyncClient) -> None:
    await api.post("/v1/modules", json={"name": "one", "symbol": NETWORK})
    await api.delete("/v1/modules/one")
    some = await events(
        api, "module_deleted", type="executor_started,module_deleted", executor="cpu(0)"
    )
    assert {one["type"] for one in some} == {"executor_started", "module_deleted"}
    assert some[0]["type"] == "executor_started"
    assert (some[0]["module"], some[0]["executor"]) == (None, "cpu(0)")
    repeated = [("type", "module_created"), ("type", "module_deleted"), ("module", "one")]
    found = []
    async with asyncio.timeout(60), api.stream("GET", "/v1/events", params=repeated) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("event:"):
                found.append(line.removeprefix("event: "))
                if len(found) == 2:
                    break
    assert found == ["module_created", "module_deleted"]


@pytest.mark.parametrize(("query", "field"), [("kind=submitted", "kind"), ("type=born", "type")])
async def test_unknown_names_are_refused(api: httpx.AsyncClient, query: str, field: str) -> None:
    refused = await api.get(f"/v1/events?{query}")
    assert refused.status_code == 422
    (fault,) = refused.json()["errors"]
    assert fault["field"] == field
    if field != "kind":
        assert "'module_created'" in fault["expected"]
        assert "'submitted'" in fault["expected"]
