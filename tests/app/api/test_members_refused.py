"""Members of a body that a route does not use are refused, not ignored."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

import core as mx
from served.network import BATCH, BIND, FEATURES, NETWORK, examples_npz, fit_body

INPUTS = {"data": [[1.0] * FEATURES] * BATCH, "softmax_label": [0, 1, 2, 0]}
NET = "/v1/modules/net"


@pytest.mark.parametrize(
    ("verb", "path", "body", "field"),
    [
        ("POST", "/forward", {"inputs": INPUTS, "is_trian": True}, "is_trian"),
        ("POST", "/forward_backward", {"inputs": INPUTS, "is_train": False}, "is_train"),
        ("POST", "/backward", {"bucket": 20}, "bucket"),
        ("POST", "/backward", {"with_outputs": True}, "with_outputs"),
        ("POST", "/update", {"is_train": True}, "is_train"),
        ("POST", "/update", {"inputs": {"fc_weight": [1.0]}}, "inputs"),
        ("PUT", "/states", {"inputs": {"h": [1.0]}, "valeu": 1}, "valeu"),
        ("PUT", "/states", {}, "inputs"),
        ("PUT", "/states", {"inputs": {"h": [1.0]}, "value": 1}, "inputs"),
        ("PUT", "/states", {"inputs": {"h": [1.0]}}, "h"),
        ("PUT", "/params", {"inputs": {"fc_bias": [0, 0, 0]}, "allow_missing": True}, "allow"),
        ("POST", "/predict", {"inputs": {"data": INPUTS["data"]}, "buckte": 20}, "buckte"),
    ],
)
async def test_unused_members_are_refused(
    ready: httpx.AsyncClient, verb: str, path: str, body: dict[str, Any], field: str
) -> None:
    before = (await ready.get(f"{NET}/params")).json()
    await ready.post(f"{NET}/forward_backward", json={"inputs": INPUTS})
    refused = await ready.request(verb, f"{NET}{path}", json=body)
    assert refused.status_code == 422, refused.text
    assert refused.json()["errors"][0]["field"].startswith(field)
    assert (await ready.get(f"{NET}/params")).json() == before


async def test_all_states_are_set_to_one_value(api: httpx.AsyncClient) -> None:
    state = mx.sym.Variable("h", shape=(2, 3))
    symbol = mx.sym.elemwise_add(mx.sym.Variable("data"), state, name="sum").tojson()
    made = {"name": "net", "symbol": symbol, "label_names": [], "state_names": ["h"]}
    assert (await api.post("/v1/modules", json=made)).status_code == 201
    shapes = {"data_shapes": [{"name": "data", "shape": [2, 3]}], "for_training": False}
    await api.post(f"{NET}/bind", json=shapes)
    assert (await api.post(f"{NET}/params/init", json={"seed": 1})).status_code == 200
    refused = await api.put(f"{NET}/states", json={"inputs": {"h": [[1.0]]}})
    assert refused.status_code == 422, refused.text
    assert (await api.get(NET)).json()["durable"]
    assert (await api.put(f"{NET}/states", json={"value": 2})).status_code == 204
    described = (await api.get(NET)).json()
    assert (described["durable"], described["live"]["has_unsaved"]) == (False, True)
    answer = (await api.get(f"{NET}/states")).json()
    np.testing.assert_array_equal(answer["states"]["h"]["data"], np.full((2, 3), 2.0))


async def test_missing_input_gradients_are_refused(api: httpx.AsyncClient) -> None:
    await api.post("/v1/modules", json={"name": "net", "symbol": NETWORK})
    await api.post(f"{NET}/bind", json=BIND)
    await api.post(f"{NET}/params/init", json={"seed": 1})
    refused = await api.get(f"{NET}/input_grads")
    assert refused.status_code == 409
    assert "bind it again with inputs_need_grad true" in refused.json()["detail"]
    await api.post(f"{NET}/bind", json={**BIND, "inputs_need_grad": True})
    refused = await api.get(f"{NET}/input_grads")
    assert refused.status_code == 409
    assert "call forward_backward first" in refused.json()["detail"]
    await api.post(f"{NET}/forward_backward", json={"inputs": INPUTS})
    grads = (await api.get(f"{NET}/input_grads")).json()["input_grads"]
    assert grads["data"]["shape"] == [BATCH, FEATURES]


async def test_a_call_at_the_wrong_time_names_no_field(ready: httpx.AsyncClient) -> None:
    await ready.post(f"{NET}/forward", json={"inputs": INPUTS, "is_train": False})
    refused = await ready.post(f"{NET}/backward")
    assert (refused.status_code, refused.json()["code"]) == (409, "wrong_stage")
    assert "call forward" in refused.json()["detail"]
    assert refused.json()["errors"] == []


async def test_an_unknown_field_of_a_form_is_named(api: httpx.AsyncClient) -> None:
    form = {"name": (None, "net"), "fixed_params": (None, "fc")}
    refused = await api.post("/v1/modules", files=form)
    assert refused.status_code == 422
    rows = {row["field"]: row["expected"] for row in refused.json()["errors"]}
    assert rows["fixed_params"].endswith("did you mean 'fixed_param_names'?")


async def test_patterns_that_match_nothing_are_refused(api: httpx.AsyncClient) -> None:
    given = {"name": "net", "symbol": NETWORK}
    alone = await api.post("/v1/modules", json={**given, "excluded_param_patterns": ["fc"]})
    assert alone.status_code == 422
    (row,) = alone.json()["errors"]
    assert row["field"] == "excluded_param_patterns"
    assert "fixed_param_patterns" in row["expected"]
    nothing = await api.post("/v1/modules", json={**given, "fixed_param_patterns": ["conv"]})
    (row,) = nothing.json()["errors"]
    assert (row["field"], row["got"]) == ("fixed_param_patterns", "conv")
    assert "fc_weight, fc_bias" in row["expected"]
    assert (await api.get(NET)).status_code == 404


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"begin_epoch": 2}, "begin_epoch"),
        ({"bucket_keys": [3]}, "bucket_keys"),
        ({"inputs": {"dat": "data"}}, "inputs.dat"),
        ({"validation": {"dataset": "examples", "inputs": {"dat": "data"}}}, "validation.inputs"),
    ],
)
async def test_a_fit_that_could_only_fail_is_refused(
    ready: httpx.AsyncClient, changes: dict[str, Any], field: str
) -> None:
    await ready.put("/v1/datasets/examples?kind=npz", content=examples_npz())
    refused = await ready.post(f"{NET}/fit", json=fit_body(**changes))
    assert refused.status_code == 422, refused.text
    assert refused.json()["errors"][0]["field"].startswith(field)
    assert (await ready.get("/v1/jobs")).json()["items"] == []


async def test_an_input_with_a_different_number_of_examples_is_named(
    ready: httpx.AsyncClient,
) -> None:
    inputs = {**INPUTS, "softmax_label": [0, 1]}
    refused = await ready.post(f"{NET}/forward_backward", json={"inputs": inputs})
    (row,) = refused.json()["errors"]
    assert (row["field"], row["got"]) == ("softmax_label", "2 examples")
    assert row["expected"] == f"{BATCH}, as in 'data'"


async def test_checkpoints_refuse_files_mxnet_does_not_write(
    created: httpx.AsyncClient,
) -> None:
    refused = await created.put(f"{NET}/checkpoints/3/files/weights.bin", content=b"1")
    assert refused.status_code == 422
    (row,) = refused.json()["errors"]
    assert (row["field"], row["got"]) == ("file", "weights.bin")
    assert (await created.get(f"{NET}/checkpoints")).json()["items"] == []


async def test_a_message_names_its_field_only_once(api: httpx.AsyncClient) -> None:
    given = {"name": "net", "symbol": NETWORK, "contexts": ["cpu(0)", "cpu(1)"]}
    refused = await api.post("/v1/modules", json={**given, "compression_params": {"type": "1bit"}})
    assert refused.json()["detail"].count("compression_params") == 1
    (row,) = refused.json()["errors"]
    assert row["got"] == "type is '1bit'; expected '2bit'"
