"""Large bodies are read and written off the event loop."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import httpx
import numpy as np
import pytest

from app.api.bodies import beside_the_loop
from app.api.v1 import tensor_io
from served.network import FEATURES, NETWORK
from served.params_file import write_params

MANY = 5_000


@pytest.fixture
def api(inside: httpx.AsyncClient) -> httpx.AsyncClient:
    """A client of a server whose threads a test can observe."""
    return inside


@pytest.mark.parametrize(("size", "is_here"), [(0, True), (1 << 14, True), (1 << 15, False)])
async def test_only_large_bodies_use_a_thread(size: int, is_here: bool) -> None:
    thread = await beside_the_loop(size, threading.get_ident)
    assert (thread == threading.get_ident()) is is_here


async def test_a_large_prediction_is_decoded_and_encoded_in_threads(
    initialized: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def noted(function):
        def call(*arguments, **options):
            threads.append(threading.get_ident())
            return function(*arguments, **options)

        return call

    for name in ("decode", "content_of"):
        monkeypatch.setattr(tensor_io, name, noted(getattr(tensor_io, name)))
    row = [round(one, 3) for one in np.linspace(0, 1, FEATURES)]
    answer = await initialized.post(
        "/v1/modules/net/predict", json={"inputs": {"data": [row] * MANY}}
    )
    assert answer.status_code == 200
    assert answer.json()["outputs"]["softmax_output"]["shape"] == [MANY, 3]
    assert len(threads) == 2
    assert threading.get_ident() not in threads
    threads.clear()
    small = await initialized.post("/v1/modules/net/predict", json={"inputs": {"data": [row]}})
    assert small.json()["outputs"]["softmax_output"]["shape"] == [1, 3]
    assert threads == [threading.get_ident()] * 2


async def test_large_json_is_decoded_in_another_process(initialized: httpx.AsyncClient) -> None:
    row = [round(one, 9) for one in np.linspace(0, 1, FEATURES)]
    body = {"inputs": {"data": [row] * MANY * 4}}
    small = await initialized.post("/v1/modules/net/predict", json={"inputs": {"data": [row]}})
    answer = await initialized.post("/v1/modules/net/predict", json=body)
    assert int(answer.request.headers["content-length"]) > 1 << 18
    assert answer.status_code == 200, answer.text
    outputs = answer.json()["outputs"]["softmax_output"]
    assert outputs["shape"] == [MANY * 4, 3]
    np.testing.assert_allclose(
        outputs["data"][-1], small.json()["outputs"]["softmax_output"]["data"][0], rtol=1e-5
    )
    body["inputs"]["data"][-1] = [1, 2, 3, 4, "5"]
    answer = await initialized.post("/v1/modules/net/predict", json=body)
    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert (error["field"], error["got"], error["expected"]) == ("inputs.data", "5", "numbers")
    body["inputs"]["data"].pop()
    answer = await initialized.post("/v1/modules/net/predict", json={**body, "buckett": 1})
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == "buckett"


def large_network() -> dict[str, Any]:
    return {**NETWORK, "attrs": {f"__comment{n}__": ["str", "é" * 50] for n in range(1000)}}


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("as_form", [False, True])
async def test_large_symbols_are_stored_like_small_ones(
    api: httpx.AsyncClient, as_text: bool, as_form: bool
) -> None:
    network = large_network()
    text = json.dumps(network)
    if as_form:
        files = {"symbol": ("net-symbol.json", text.encode())}
        answer = await api.post("/v1/modules", data={"name": "net"}, files=files)
    else:
        body = {"name": "net", "symbol": text if as_text else network, "label_names": ["x"] * 20}
        assert (await api.post("/v1/modules", json=body)).status_code == 422
        body["label_names"] = ["softmax_label"]
        answer = await api.post("/v1/modules", json=body)
    assert answer.status_code == 201, answer.text
    assert (await api.get("/v1/modules/net/symbol")).json() == network


async def test_the_limit_for_other_json_is_small(initialized: httpx.AsyncClient) -> None:
    for path in ("bind", "optimizer", "fit", "load", "params/init"):
        body = b'{"x": "%s"}' % (b"a" * (1 << 18))
        answer = await initialized.post(f"/v1/modules/net/{path}", content=body)
        assert answer.status_code == 413, answer.text
        assert "MODSERVE_MAX_JSON_BYTES" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("bind", b'{"data_shapes": [%s]}' % b",".join([b"[]"] * 60_000)),
        ("fit", b'{"dataset": "d", "metrics": [%s]}' % b",".join([b"1"] * 60_000)),
        ("optimizer", b"{%s}" % b",".join(b'"a%d":1' % n for n in range(20_000))),
        ("forward", b'{"inputs": {}, %s}' % b",".join(b'"a%d":1' % n for n in range(2000))),
    ],
)
async def test_many_errors_in_a_body_are_truncated(
    initialized: httpx.AsyncClient, path: str, body: bytes
) -> None:
    answer = await initialized.post(f"/v1/modules/net/{path}", content=body)
    assert answer.status_code == 422, answer.text
    assert 1 <= len(answer.json()["errors"]) <= 50
    assert len(answer.content) < 1 << 16


async def test_the_event_loop_never_syncs_to_disk(
    api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    bring = os.fsync

    def noted(descriptor: int) -> None:
        threads.append(threading.get_ident())
        bring(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    params = write_params({"fc_weight": np.zeros((3, FEATURES), "f4")}, {})
    files = {
        "symbol": ("net-symbol.json", json.dumps(NETWORK).encode()),
        "params": ("net-0001.params", params),
    }
    answer = await api.post("/v1/modules", data={"name": "net"}, files=files)
    assert answer.status_code in (201, 422), answer.text
    answer = await api.put("/v1/datasets/d?kind=csv", content=b"1,2\n3,4\n")
    assert answer.status_code == 200, answer.text
    assert len(threads) > 2
    assert threading.get_ident() not in threads
