"""Bucket plans derived from the lengths requested so far."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx
import numpy as np
import pytest

import core as mx
from app.client import Client, ClientError
from app.client.local_server import running_server
from served.padded_sums import FEATURES, ask, create
from served.processes import ENVIRONMENT


def test_a_plan_follows_the_requested_lengths_and_survives_a_restart(tmp_path: Path) -> None:
    with running_server(tmp_path, environment=ENVIRONMENT) as server, Client(server.url) as client:
        create(client)
        empty = client.bucket_plan("net", 3)
        assert (empty["examples"], empty["planned"], empty["waste_bound"]) == (0, [6, 12], 0)
        ask(client, {3: 6, 7: 3, 8: 1})
        ask(client, {3: 1}, rows=4)
        ask(client, {3: 1}, rows=2000)  # too large a body for the fast path
        plan = client.bucket_plan("net", 3)
        assert plan["lengths"] == {"3": 2010, "7": 3, "8": 1}
        assert (plan["input"], plan["axis"], plan["bound"]) == ("data", 1, [6, 12])
        assert plan["planned"] == [3, 8, 12]
        steps = 2010 * 3 + 21 + 8
        assert plan["waste_bound"] == pytest.approx(1 - steps / (2010 * 6 + 4 * 12))
        assert plan["waste_planned"] == pytest.approx(1 - steps / (2010 * 3 + 4 * 8))
        with pytest.raises(ClientError):
            ask(client, {13: 1})
        ask(client, {2: 1})
    with running_server(tmp_path, environment=ENVIRONMENT) as server, Client(server.url) as client:
        plan = client.bucket_plan("net", 3)
        assert plan["lengths"] == {"2": 1, "3": 2010, "7": 3, "8": 1}
        client.delete_module("net")
        create(client)
        assert client.bucket_plan("net", 3)["examples"] == 0


def values_for(client: Client, steps: int) -> np.ndarray:
    """Return the outputs for examples of ones, computed without a server."""
    params = client.params("net")
    summed = np.full(FEATURES, steps, np.float32)
    found: np.ndarray = summed @ params["fc_weight"].T + params["fc_bias"]
    return found


def asked_until(url: str, end: Event, expected: dict[int, np.ndarray], seed: int) -> Iterator[int]:
    """Request examples of many lengths until the end, yielding each correct answer."""
    random = np.random.default_rng(seed)
    with Client(url) as client:
        while not end.is_set():
            steps = int(random.integers(1, 13))
            output = client.predict("net", data=np.ones((1, steps, FEATURES), "f"))["fc_output"]
            np.testing.assert_allclose(output[0], expected[steps], rtol=1e-5)
            yield steps


def test_a_plan_is_applied_without_a_dropped_request(tmp_path: Path) -> None:
    with running_server(tmp_path, environment=ENVIRONMENT) as server, Client(server.url) as client:
        create(client)
        expected = {steps: values_for(client, steps) for steps in range(1, 13)}
        end = Event()
        with ThreadPoolExecutor(4) as pool:
            asking = [
                pool.submit(lambda n: len(list(asked_until(server.url, end, expected, n))), n)
                for n in range(4)
            ]
            try:
                ask(client, {3: 40, 8: 20})
                for most in (4, 2, 8, 2, 5, 3):
                    plan = client.apply_bucket_plan("net", most)
                    assert len(plan["planned"]) <= most
                    record = client.module("net")
                    keys = {record["default_bucket_key"], *record["bind"]["buckets"]}
                    assert keys == {str(length) for length in plan["planned"]}
                    assert set(record["live"]["buckets"]) == keys
                    ask(client, dict.fromkeys(range(1, 13), 2))
            finally:
                end.set()
            assert min(one.result() for one in asking) > 0
        kept = client.bucket_plan("net", 3)["bound"]
        assert kept == plan["planned"]
    with running_server(tmp_path, environment=ENVIRONMENT) as server, Client(server.url) as client:
        ask(client, dict.fromkeys(range(1, 13), 1))
        assert client.bucket_plan("net", 3)["bound"] == kept


def test_a_plan_is_not_applied_to_a_module_that_has_changed(tmp_path: Path) -> None:
    with running_server(tmp_path, environment=ENVIRONMENT) as server, Client(server.url) as client:
        create(client)
        ask(client, {3: 2, 8: 2})
        seen = client.module("net")["etag"]
        client.set_serving("net", max_delay_us=5)
        url = f"{server.url}/v1/modules/net/buckets/plan?k=3"
        refused = httpx.post(url, headers={"If-Match": seen})
        assert refused.status_code == 412, refused.text
        assert client.bucket_plan("net", 3)["bound"] == [6, 12]
        present = {"If-Match": client.module("net")["etag"]}
        assert httpx.post(url, headers=present).status_code == 200
        assert client.bucket_plan("net", 3)["bound"] == [3, 8, 12]


async def test_a_module_without_lengths_has_no_plan(api: httpx.AsyncClient) -> None:
    plain = {"name": "net", "symbol": mx.sym.Variable("data").tojson(), "label_names": []}
    await api.post("/v1/modules", json=plain)
    refused = await api.get("/v1/modules/net/buckets/plan?k=2")
    assert refused.status_code == 409
    bound = {"data_shapes": [{"name": "data", "shape": [2, 3]}], "for_training": False}
    await api.post("/v1/modules/net/bind", json=bound)
    refused = await api.get("/v1/modules/net/buckets/plan?k=2")
    assert refused.status_code == 409
    assert "bucket keys are not lengths" in refused.json()["detail"]


@pytest.mark.parametrize("query", ["", "?k=1", "?k=65", "?k=many"])
async def test_the_number_of_buckets_is_required(api: httpx.AsyncClient, query: str) -> None:
    refused = await api.get(f"/v1/modules/net/buckets/plan{query}")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "k")
