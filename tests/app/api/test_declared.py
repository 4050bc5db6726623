"""The running server answers as the OpenAPI document declares: statuses, codes, headers, members.

The ``api`` client checks this in all its tests; here are the routes and codes no other test
reaches.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.client.local_server import ServerProcess, running_server
from app.errors.catalog import CATALOG
from served.declared import check_declared, undeclared
from served.document import openapi_document
from served.keys import add_key
from served.network import BATCH, FEATURES, NETWORK, examples_npz, fit_body
from served.processes import ENVIRONMENT

MODULE = "/v1/modules/net"
JSON = {"Content-Type": "application/json"}
INPUTS = {"inputs": {"data": [[0.5] * FEATURES] * BATCH}}
PLACES = {
    "module": "net",
    "epoch": "1",
    "file": "net-0001.params",
    "parameter": "fc_bias",
    "dataset": "examples",
    "version": "1",
    "model": "net",
    "output": "softmax_output",
    "code": "not_found",
    "label": "stable",
    "input": "data",
}


@pytest.fixture
async def trained(ready: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client, with a checkpoint, a dataset, and a finished fit."""
    assert (await ready.post(f"{MODULE}/checkpoints", json={"epoch": 1})).is_success
    assert (await ready.put("/v1/datasets/examples", content=examples_npz())).is_success
    labels = await ready.put(f"{MODULE}/labels/softmax_output", content=b"zero\none\ntwo")
    assert labels.is_success
    job = (await ready.post(f"{MODULE}/fit", json=fit_body())).json()["id"]
    await ready.get(f"/v1/jobs/{job}/events")  # to its end
    return ready


def get_routes() -> list[str]:
    """Return the paths that support GET, except endless streams."""
    paths = openapi_document()["paths"]
    return [path for path, verbs in paths.items() if "get" in verbs and path != "/v1/events"]


async def test_every_readable_route_answers_as_declared(trained: httpx.AsyncClient) -> None:
    job = (await trained.get("/v1/jobs")).json()["items"][0]["id"]
    found: list[int] = []
    for path in get_routes():
        where = path.format(**PLACES, job=job)
        query = {"k": 2} if path.endswith("/plan") else {}
        answer = await trained.get(where, params=query)
        found.append(answer.status_code)
        assert answer.status_code in (200, 404, 409), (where, answer.text)
    assert found.count(200) > 40, "some have nothing to show for this module"


async def test_partial_content_is_as_declared(trained: httpx.AsyncClient) -> None:
    for path in (f"{MODULE}/checkpoints/1/files/net-0001.params", "/v1/datasets/examples/file"):
        for value, status in (("bytes=0-3", 206), ("bytes=0-1,4-5", 206), ("bytes=999999-", 416)):
            part = await trained.get(path, headers={"Range": value})
            assert part.status_code == status
        whole = await trained.get(path)
        assert part.headers["content-range"] == f"bytes */{len(whole.content)}"
        assert part.json()["code"] == "range_not_satisfiable"


async def test_every_media_type_of_an_answer_is_as_declared(trained: httpx.AsyncClient) -> None:
    for form in ("application/json", "application/x-npz", "application/x-npy"):
        answer = await trained.post(f"{MODULE}/predict", json=INPUTS, headers={"Accept": form})
        assert answer.is_success, answer.text
    ranked = await trained.post(f"{MODULE}/predict?top_k=2", json=INPUTS)
    assert ranked.json()["outputs"]["softmax_output"][0][0]["label"] in ("zero", "one", "two")
    tensor = {"name": "data", "datatype": "FP32", "shape": [BATCH, FEATURES]}
    body = {"inputs": [tensor | {"data": [0.5] * BATCH * FEATURES}], "id": "7"}
    assert (await trained.post("/v2/models/net/infer", json=body)).json()["id"] == "7"
    wished = {"name": "softmax_output", "parameters": {"binary_data": True}}
    binary = await trained.post("/v2/models/net/infer", json=body | {"outputs": [wished]})
    assert binary.headers["inference-header-content-length"]
    assert (await trained.post("/v2/repository/index", json={})).json()[0]["name"] == "net"
    for call in ("unload", "load"):
        assert (await trained.post(f"/v2/repository/models/net/{call}", json={})).is_success


def events_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(one[5:]) for one in text.splitlines() if one.startswith("data:")]


async def test_events_are_as_declared(trained: httpx.AsyncClient) -> None:
    """The payload of each event is one of the declared kinds, without extra members."""
    job = (await trained.get("/v1/jobs")).json()["items"][0]["id"]
    found = events_of((await trained.get(f"/v1/jobs/{job}/events")).text)
    await trained.delete(MODULE)
    async with trained.stream("GET", "/v1/events?module=net") as stream:
        async for line in stream.aiter_lines():
            found += events_of(line)
            if found[-1:] and found[-1]["type"] == "module_deleted":
                break
    assert {one["type"] for one in found} >= {
        *("submitted", "claimed", "metric", "checkpoint", "succeeded"),
        *("module_created", "module_bound", "module_deleted"),
    }
    for event in found:
        faults = undeclared(_as_page(event))
        assert not faults, (event, faults)


def _as_page(event: dict[str, Any]) -> httpx.Response:
    """Return a page of events as the route would answer it."""
    request = httpx.Request("GET", "http://server/v1/jobs/1/metrics")
    page = {"items": [event], "next_cursor": None}
    return httpx.Response(200, json=page, request=request)


def changed_network(**members: Any) -> dict[str, Any]:
    """Return a create request whose third node, the layer, is different."""
    nodes = [*NETWORK["nodes"]]
    nodes[3] = nodes[3] | members
    return {"json": {"name": "odd", "symbol": NETWORK | {"nodes": nodes}}}


def other_bind(dtype: str, labels: int) -> dict[str, Any]:
    data = {"name": "data", "shape": [BATCH, FEATURES], "dtype": dtype}
    label = {"name": "softmax_label", "shape": [labels]}
    return {"json": {"data_shapes": [data], "label_shapes": [label]}}


Ask = tuple[str, str, dict[str, Any]]
REFUSED: dict[str, Ask] = {
    "malformed": ("POST", "/v1/modules", {"content": b"{", "headers": JSON}),
    "not_found": ("GET", "/v1/modules/nobody", {}),
    "method_not_allowed": ("PATCH", "/v1/modules", {}),
    "already_exists": ("POST", "/v1/modules", {"json": {"name": "net", "symbol": NETWORK}}),
    "wrong_stage": ("POST", "/v1/modules/new/params/init", {"json": {}}),
    "conflict": ("POST", f"{MODULE}/rollback", {}),
    "in_use": ("DELETE", f"{MODULE}/checkpoints/1", {}),
    "illegal_transition": ("POST", "/v1/jobs/{job}/resume", {}),
    "precondition_failed": ("DELETE", MODULE, {"headers": {"If-Match": '"0-0"'}}),
    "too_large": ("POST", f"{MODULE}/predict", {"content": b"[" * (1 << 20) + b"["}),
    "unsupported_media_type": (
        *("POST", f"{MODULE}/predict"),
        {"content": b"<x/>", "headers": {"Content-Type": "text/xml"}},
    ),
    "invalid": ("GET", "/v1/modules?limit=0", {}),
    "damaged": ("PUT", "/v1/datasets/broken?kind=npz", {"content": b"PK"}),
    "idempotency_mismatch": (
        *("POST", "/v1/modules"),
        {"json": {"name": "two", "symbol": NETWORK}, "headers": {"Idempotency-Key": "once"}},
    ),
    "range_not_satisfiable": (
        *("GET", f"{MODULE}/checkpoints/1/files/net-0001.params"),
        {"headers": {"Range": "bytes=999999-"}},
    ),
    "headers_too_large": ("GET", "/v1/modules", {"headers": {"X-Long": "x" * (1 << 17)}}),
    "unsupported_coding": (
        *("PUT", "/v1/datasets/packed"),
        {"content": b"x", "headers": {"Content-Encoding": "gzip"}},
    ),
    "invalid_graph": ("POST", "/v1/modules", changed_network(inputs=[[5, 0, 0]])),
    "unknown_operator": ("POST", "/v1/modules", changed_network(op="FullyConected")),
    "invalid_attribute": ("POST", "/v1/modules", changed_network(attrs={"num_hidden": "x"})),
    "invalid_shape": ("POST", "/v1/modules/new/bind", other_bind("float32", BATCH + 1)),
    "invalid_dtype": ("POST", "/v1/modules/new/bind", other_bind("int32", BATCH)),
    "misdirected": ("GET", "/v1/modules", {"headers": {"Host": "elsewhere.example"}}),
    "foreign_origin": ("POST", f"{MODULE}/warm_up", {"headers": {"Origin": "http://evil.example"}}),
}


async def test_refusals_are_as_declared(trained: httpx.AsyncClient) -> None:
    """The client itself fails on an undeclared code, status, header or member."""
    await trained.post("/v1/modules", json={"name": "new", "symbol": NETWORK})
    once = {"name": "once", "symbol": NETWORK}
    await trained.post("/v1/modules", json=once, headers={"Idempotency-Key": "once"})
    await trained.post(f"{MODULE}/load", json={"epoch": 1})
    job = (await trained.get("/v1/jobs")).json()["items"][0]["id"]
    codes = {}
    for code, (verb, path, options) in REFUSED.items():
        refused = await trained.request(verb, path.format(job=job), **options)
        codes[code] = refused.json()["code"]
    assert codes == {code: code for code in REFUSED}


ELSEWHERE = {
    "unauthorized": "api/test_keys.py",
    "forbidden": "api/test_keys.py",
    "too_many_requests": "api/test_keys.py",
    "too_slow": "server/test_protocol.py",
    "params_lost": "e2e/test_params_lost.py",
    "sequence_lost": "e2e/test_sequences.py",
    "module_failed": "e2e/test_restores.py",
    "engine": "errors/test_tree.py",
    "invalid_device": "errors/test_tree.py",
    "kernel_failed": "errors/test_tree.py",
    "internal": "api/test_problems.py",
    "unavailable": "e2e/test_sequences.py",
    "version_damaged": "e2e/test_versions.py",
    "executor_gone": "e2e/test_deaths.py",
    "call_too_long": "e2e/test_poison.py",
    "storage_full": "e2e/test_disk_full.py",
    "out_of_memory": "e2e/test_memory_budget.py",
    # Clients get these only while other modules keep taking a module's memory.
    "not_resident": "services/predictions/test_instances.py",
    "version_not_loaded": "executor/predict/test_loaded_versions.py",
    "version_replaced": "executor/predict/test_loaded_versions.py",
}
"""Tests that provoke what takes more than a request."""


def test_every_error_code_is_provoked_somewhere() -> None:
    answered = {code for code, entry in CATALOG.items() if entry.status is not None}
    assert answered == REFUSED.keys() | ELSEWHERE.keys()
    assert not REFUSED.keys() & ELSEWHERE.keys()
    for code, path in ELSEWHERE.items():
        assert f'"{code}"' in (Path(__file__).parents[1] / path).read_text(), code


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server with API keys, and a key that allows one read in ten seconds."""
    folder = tmp_path_factory.mktemp("guarded")
    key = add_key(folder, "slow", "read", rate=0.1)
    with running_server(folder, environment=ENVIRONMENT) as server:
        yield server, key


@pytest.fixture
async def outside(guarded: tuple[ServerProcess, str]) -> AsyncIterator[httpx.AsyncClient]:
    hooks = {"response": [check_declared]}
    server, _ = guarded
    async with httpx.AsyncClient(base_url=server.url, timeout=60, event_hooks=hooks) as client:
        yield client


async def test_refusals_of_keys_are_as_declared(
    outside: httpx.AsyncClient, guarded: tuple[ServerProcess, str]
) -> None:
    for path in ("/v1/modules", "/v2"):
        assert (await outside.get(path)).status_code == 401
    key = {"X-API-Key": guarded[1]}
    forbidden = await outside.post("/v1/models/reload", headers=key)
    assert forbidden.json()["missing_scope"] == ["admin"]
    async with asyncio.timeout(30):
        while (slow := await outside.get("/v1/modules", headers=key)).status_code != 429:
            pass
    assert slow.json()["code"] == "too_many_requests"


def altered(change: Callable[[httpx.Response], httpx.Response]) -> list[str]:
    body = {"items": [], "next_cursor": None}
    request = httpx.Request("GET", "http://server/v1/modules")
    return undeclared(change(httpx.Response(200, json=body, request=request)))


def test_the_check_finds_undeclared_answers() -> None:
    def with_header(answer: httpx.Response) -> httpx.Response:
        answer.headers["X-Secret"] = "1"
        return answer

    def with_member(answer: httpx.Response) -> httpx.Response:
        return httpx.Response(200, json=answer.json() | {"more": 1}, request=answer.request)

    def without_member(answer: httpx.Response) -> httpx.Response:
        return httpx.Response(200, json={"next_cursor": None}, request=answer.request)

    def with_status(answer: httpx.Response) -> httpx.Response:
        answer.status_code = 207
        return answer

    def with_code(answer: httpx.Response) -> httpx.Response:
        problem = {"type": "", "title": "", "status": 422, "detail": "", "instance": ""}
        problem |= {"code": "sequence_lost", "request_id": "", "errors": []}
        kind = {"Content-Type": "application/problem+json"}
        return httpx.Response(422, json=problem, headers=kind, request=answer.request)

    assert altered(lambda answer: answer) == []
    assert altered(with_header) == ["header x-secret"]
    assert altered(with_member) == ["member .more"]
    assert "items" in altered(without_member)[0]
    assert any("content" in one for one in altered(with_status))
    assert "code sequence_lost of status 422" in altered(with_code)
