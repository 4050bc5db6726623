"""The kinds of modules over HTTP: created, described, refused."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
import pytest

from served.network import BATCH, BIND, FEATURES, NETWORK


def body(**changes: Any) -> dict[str, Any]:
    return {"name": "net", "symbol": NETWORK, **changes}


def fixed(described: dict[str, Any]) -> list[str]:
    return [row["name"] for row in described["live"]["arguments"] if row["fixed"]]


async def test_a_detection_module_reports_its_fixed_parameters(api: httpx.AsyncClient) -> None:
    given = body(kind="detection", fixed_param_patterns=["fc_"], excluded_param_patterns=["bias"])
    created = await api.post("/v1/modules", json=given)
    assert created.status_code == 201, created.text
    described = (await api.get("/v1/modules/net")).json()
    assert described["kind"] == "detection"
    assert described["fixed_param_patterns"] == ["fc_"]
    assert described["excluded_param_patterns"] == ["bias"]
    assert fixed(described) == ["fc_weight"]


async def test_a_multipart_form_gives_the_same(api: httpx.AsyncClient) -> None:
    files = {"symbol": ("net-symbol.json", json.dumps(NETWORK).encode())}
    fields: dict[str, Any] = {"name": "net", "kind": "detection", "fixed_param_patterns": ["bias"]}
    created = await api.post("/v1/modules", data=fields, files=files)
    assert created.status_code == 201, created.text
    assert fixed((await api.get("/v1/modules/net")).json()) == ["fc_bias"]
    fields = {"name": "spread", "contexts": ["cpu(0)", "cpu(1)"]}
    fields["compression_params"] = json.dumps({"type": "2bit", "threshold": 0.5})
    created = await api.post("/v1/modules", data=fields, files=files)
    assert created.status_code == 201, created.text
    assert created.json()["compression_params"] == {"type": "2bit", "threshold": 0.5}


async def test_compression_needs_the_device_store(api: httpx.AsyncClient) -> None:
    compression = {"compression_params": {"type": "2bit"}, "contexts": ["cpu(0)", "cpu(1)"]}
    created = await api.post("/v1/modules", json=body(**compression))
    assert created.status_code == 201, created.text
    await api.post("/v1/modules/net/bind", json=BIND)
    await api.post("/v1/modules/net/params/init", json={"seed": 1})
    refused = await api.post("/v1/modules/net/optimizer", json={"name": "sgd"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "kvstore")
    taken = await api.post("/v1/modules/net/optimizer", json={"name": "sgd", "kvstore": "device"})
    assert taken.status_code == 200, taken.text


async def test_a_mutable_module_reports_contradicting_shapes(api: httpx.AsyncClient) -> None:
    await api.post("/v1/modules", json=body(kind="mutable"))
    await api.post("/v1/modules/net/bind", json=BIND)
    await api.post("/v1/modules/net/params/init", json={"initializer": "one"})
    good = {"inputs": {"data": np.ones((BATCH + 3, FEATURES)).tolist()}}
    answer = await api.post("/v1/modules/net/predict", json=good)
    assert answer.json()["outputs"]["softmax_output"]["shape"] == [BATCH + 3, 3]
    bad = {"inputs": {"data": np.ones((1, FEATURES + 1)).tolist()}}
    refused = await api.post("/v1/modules/net/predict", json=bad)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_shape")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"kind": "sequential"}, "kind"),
        ({"kind": "bucketing"}, "kind"),
        ({"kind": "mutable", "buckets": [3]}, "kind"),
        ({"fixed_param_patterns": ["conv"]}, "fixed_param_patterns"),
        ({"compression_params": {"type": "2bit"}}, "compression_params"),
    ],
)
async def test_invalid_modules_are_refused(
    api: httpx.AsyncClient, changes: Any, field: str
) -> None:
    refused = await api.post("/v1/modules", json=body(**changes))
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field)
