"""Statistics of models: what each version did, and how long each phase took."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from app.client import Client
from app.client.local_server import ServerProcess
from served.oip_forms import binary, numbers
from served.perceptron import FEATURES, perceptron

MODEL = "/v2/models/counted"
PARTS = ("queue", "compute_input", "compute_infer", "compute_output")


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    """A client of a server with a model ``counted`` that has versions 1 and 2."""
    with Client(server.url) as client:
        client.create_module("counted", perceptron().tojson())
        client.bind("counted", [{"name": "data", "shape": [4, FEATURES]}], for_training=False)
        for epoch in (1, 2):
            client.init_params("counted", seed=epoch)
            client.save_checkpoint("counted", epoch)
        yield client
        client.delete_module("counted")


def infer(http: httpx.Client, rows: int = 1, version: str | None = None) -> str:
    """Infer; return the version that answered."""
    path = MODEL if version is None else f"{MODEL}/versions/{version}"
    answer = http.post(f"{path}/infer", json=numbers(np.ones((rows, FEATURES), "f")))
    assert answer.status_code == 200, answer.text
    return str(answer.json()["model_version"])


def statistics(http: httpx.Client, version: str | None = None) -> dict[str, dict[str, Any]]:
    path = MODEL if version is None else f"{MODEL}/versions/{version}"
    return {one["version"]: one for one in http.get(f"{path}/stats").json()["model_stats"]}


def test_each_version_has_its_own_statistics(client: Client, http: httpx.Client) -> None:
    for version, times in (("live", 1), ("1", 2), ("2", 3), ("latest", 1)):
        for _ in range(times):
            infer(http, rows=2, version=version)
    wrong = numbers(np.ones((1, FEATURES + 1), "f"))
    assert http.post(f"{MODEL}/versions/1/infer", json=wrong).status_code == 400
    found = statistics(http)
    assert {name: one["inference_count"] for name, one in found.items()} == {"0": 2, "1": 4, "2": 8}
    assert {name: one["execution_count"] for name, one in found.items()} == {"0": 1, "1": 2, "2": 4}
    fails = {name: one["inference_stats"]["fail"]["count"] for name, one in found.items()}
    assert fails == {"0": 0, "1": 1, "2": 0}
    for asked, name in (("live", "0"), ("1", "1"), ("2", "2"), ("latest", "2")):
        assert statistics(http, asked) == {name: found[name]}
    whole = http.get("/v2/models/stats").json()["model_stats"]
    assert [one for one in whole if one["name"] == "counted"] == list(found.values())
    assert http.get(f"{MODEL}/versions/9/stats").status_code == 404


@pytest.mark.parametrize("rows", [1, 3000])
@pytest.mark.parametrize("query", ["", "?top_k=1"])
def test_predictions_over_v1_are_timed_too(
    client: Client, http: httpx.Client, rows: int, query: str
) -> None:
    body = {"data": np.ones((rows, FEATURES)).tolist()}
    path = f"/v1/modules/counted/predict{query}"
    before = statistics(http).get("0")
    assert http.post(path, json=body).status_code == 200
    after = statistics(http)["0"]
    assert after["inference_count"] == rows + (before["inference_count"] if before else 0)
    times = [one["inference_stats"] for one in (before, after) if one is not None]
    spent = {part: times[-1][part]["ns"] for part in PARTS}
    if before is not None:
        spent = {part: ns - times[0][part]["ns"] for part, ns in spent.items()}
    assert min(spent["compute_infer"], spent["queue"]) > 0, spent


def test_a_canary_counts_what_it_answered(client: Client, http: httpx.Client) -> None:
    client.promote("counted", 1)
    client.set_canary("counted", 2, weight=0.5)
    answered = [infer(http) for _ in range(40)]
    found = statistics(http)
    for version in ("1", "2"):
        assert found[version]["inference_count"] == answered.count(version) > 0


def test_version_0_is_not_mistaken_for_live(client: Client, http: httpx.Client) -> None:
    client.save_checkpoint("counted", 0)
    infer(http)
    assert list(statistics(http)) == ["0"]
    infer(http, version="0")
    found = statistics(http)
    assert {name: one["inference_count"] for name, one in found.items()} == {"live": 1, "0": 1}


@pytest.mark.parametrize("rows", [1, 4, 60_000])
def test_each_phase_is_timed(client: Client, http: httpx.Client, rows: int) -> None:
    """In a slot, batched with others, and in pieces, whose phases cannot be separated."""
    request = binary(
        {"data": np.ones((rows, FEATURES), "f")}, parameters={"binary_data_output": True}
    )
    for _ in range(3):
        answer = http.post(f"{MODEL}/infer", content=request.body, headers=request.headers)
        assert answer.status_code == 200, answer.text
    (found,) = statistics(http).values()
    sums = {name: one["ns"] for name, one in found["inference_stats"].items()}
    assert sums["compute_infer"] > 0
    if rows <= 4:
        assert all(sums[part] > 0 for part in PARTS), sums
        (batch,) = found["batch_stats"]
        for part in PARTS[1:]:
            assert batch[part] == {"count": 3, "ns": sums[part]}
    assert sum(sums[part] for part in PARTS) <= sums["success"]
