"""Monitor statistics over HTTP: of a manual pass, and as events of a fit."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from served.network import BATCH, FEATURES, examples_npz, fit_body

BODY: dict[str, Any] = {
    "inputs": {"data": [[1.0] * FEATURES] * BATCH, "softmax_label": [0, 1, 2, 0]},
    "monitor": "fc*",
}


async def rows(api: httpx.AsyncClient, **query: str) -> list[tuple[str, str]]:
    response = await api.get("/v1/modules/net/monitor", params=query)
    assert response.status_code == 200, response.text
    return [(row["name"], row["of"]) for row in response.json()["items"]]


async def test_a_pass_returns_statistics(ready: httpx.AsyncClient) -> None:
    held = [("fc_weight", "parameter"), ("fc_bias", "parameter")]
    gradients = [("fc_weight", "gradient"), ("fc_bias", "gradient")]
    assert await rows(ready) == held + gradients
    done = await ready.post("/v1/modules/net/forward_backward", json=BODY)
    assert done.status_code == 200, done.text
    found = await rows(ready)
    assert found[0] == ("fc_output", "output")
    assert found[-4:] == held + gradients
    assert await rows(ready, pattern="fc_output") == [("fc_output", "output")]
    assert await rows(ready, pattern="?c_bias") == [held[1], gradients[1]]
    response = await ready.get("/v1/modules/net/monitor?pattern=fc_output")
    (row,) = response.json()["items"]
    assert (row["shape"], row["device"], row["nonfinite"]) == ([BATCH, 3], "cpu(0)", 0)
    assert row["min"] <= row["mean"] <= row["max"]


async def test_a_fit_writes_statistics_as_events(ready: httpx.AsyncClient) -> None:
    await ready.put("/v1/datasets/examples?kind=npz", content=examples_npz())
    body = fit_body(monitor={"interval": 2, "pattern": "*weight"})
    job = (await ready.post("/v1/modules/net/fit", json=body)).json()["id"]
    events = []
    async with ready.stream("GET", f"/v1/jobs/{job}/events") as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data:"):
                events.append(json.loads(line.removeprefix("data:")))
    assert events[-1]["status"] == "succeeded", events[-1]
    reports = [one["data"] for one in events if one["type"] == "statistics"]
    places = [(epoch, batch) for epoch in range(2) for batch in (0, 2, 4)]
    assert [(one["epoch"], one["batch"]) for one in reports] == places
    assert {row["name"] for one in reports for row in one["arrays"]} == {"fc_weight"}


@pytest.mark.parametrize("pattern", ["", "x" * 201])
async def test_invalid_patterns_are_refused(ready: httpx.AsyncClient, pattern: str) -> None:
    refused = await ready.get("/v1/modules/net/monitor", params={"pattern": pattern})
    assert refused.status_code == 422
    step = {**BODY, "monitor": pattern}
    refused = await ready.post("/v1/modules/net/forward", json=step)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "monitor")
    monitor = fit_body(monitor={"pattern": pattern})
    refused = await ready.post("/v1/modules/net/fit", json=monitor)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "monitor.pattern")


async def test_update_refuses_a_monitor(ready: httpx.AsyncClient) -> None:
    await ready.post("/v1/modules/net/forward_backward", json=BODY)
    refused = await ready.post("/v1/modules/net/update", json={"inputs": {}, "monitor": "*"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "monitor")


async def test_a_module_without_parameters_has_no_statistics(bound: httpx.AsyncClient) -> None:
    refused = await bound.get("/v1/modules/net/monitor")
    assert (refused.status_code, refused.json()["code"]) == (409, "wrong_stage")
