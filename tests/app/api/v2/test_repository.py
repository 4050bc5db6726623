"""Unloading and loading models, and requests in the meantime."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

import core as mx
from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served.oip_forms import data_of, numbers
from served.perceptron import FEATURES, perceptron
from served.processes import ENVIRONMENT, executor_pid, kill, wait_until

INFER = "/v2/models/net/infer"
X = np.random.default_rng(2).random((2, FEATURES)).astype("f")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running_server(tmp_path_factory.mktemp("models"), environment=ENVIRONMENT) as server:
        yield server


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    """A client of a server with only the model ``net``."""
    with Client(server.url) as client:
        for module in client.modules():
            client.delete_module(module["name"])
        add(client)
    with httpx.Client(base_url=server.url, timeout=60) as http:
        yield http


def add(client: Client) -> None:
    client.create_module("net", perceptron().tojson())
    client.bind("net", [{"name": "data", "shape": [4, FEATURES]}], for_training=False)
    client.init_params("net", seed=3)


def on_device(server: ServerProcess) -> set[str]:
    with Client(server.url) as client:
        return {one["name"] for one in client.executors()[0]["modules"]}


def test_an_unloaded_model_frees_its_memory_and_loads_unchanged(
    server: ServerProcess, http: httpx.Client
) -> None:
    before = data_of(http.post(INFER, json=numbers(X)))
    assert on_device(server) == {"net"}
    assert http.post("/v2/repository/models/net/unload").status_code == 200
    assert on_device(server) == set()
    assert http.post(INFER, json=numbers(X)).status_code == 503
    refused = http.post("/v1/modules/net/predict", json={"inputs": {"data": X.tolist()}})
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    assert http.get("/v2/models/net").status_code == 503
    assert on_device(server) == set(), "none of these requests loaded it"
    assert http.post("/v2/repository/models/net/unload").status_code == 200, "unloaded already"
    assert http.post("/v2/repository/models/net/load").status_code == 200
    assert on_device(server) == {"net"}
    np.testing.assert_array_equal(data_of(http.post(INFER, json=numbers(X))), before)


def test_a_model_stays_unloaded_after_a_restart(tmp_path: Path) -> None:
    with running_server(tmp_path, environment=ENVIRONMENT) as server:
        with Client(server.url) as client:
            add(client)
        assert httpx.post(f"{server.url}/v2/repository/models/net/unload").status_code == 200
    with running_server(tmp_path, environment=ENVIRONMENT) as server:
        (row,) = httpx.post(f"{server.url}/v2/repository/index").json()
        assert (row["state"], row["reason"]) == ("UNAVAILABLE", "unloaded")
        assert httpx.post(f"{server.url}{INFER}", json=numbers(X)).status_code == 503
        assert httpx.post(f"{server.url}/v2/repository/models/net/load").status_code == 200
        assert httpx.post(f"{server.url}{INFER}", json=numbers(X)).status_code == 200


def test_a_model_with_unsaved_parameters_is_not_unloaded(
    server: ServerProcess, http: httpx.Client
) -> None:
    with Client(server.url) as client:
        weight = client.params("net")["fc1_bias"]
        client.set_params("net", {"fc1_bias": weight + 1}, allow_missing=True)
        before = data_of(http.post(INFER, json=numbers(X)))
        answer = http.post("/v2/repository/models/net/unload")
        assert answer.status_code == 400
        assert "checkpoints" in answer.json()["error"]
        np.testing.assert_array_equal(data_of(http.post(INFER, json=numbers(X))), before)
        client.save_checkpoint("net", 1)
    assert http.post("/v2/repository/models/net/unload").status_code == 200
    assert http.post("/v2/repository/models/net/load").status_code == 200
    np.testing.assert_array_equal(data_of(http.post(INFER, json=numbers(X))), before)


def test_inferences_waiting_when_a_model_is_unloaded_get_503(
    server: ServerProcess, http: httpx.Client
) -> None:
    with Client(server.url) as client:
        client.set_serving("net", max_batch_size=64, max_delay_us=10_000_000)
        found: list[httpx.Response] = []
        url = f"{server.url}{INFER}"
        asking = threading.Thread(
            target=lambda: found.append(httpx.post(url, json=numbers(X), timeout=30))
        )
        asking.start()
        wait_until(lambda: client.executors()[0]["calls_under_way"] > 0, "the inference waits")
        assert http.post("/v2/repository/models/net/unload").status_code == 200
        asking.join()
    assert found[0].status_code == 503
    assert "unloaded" in found[0].json()["error"]


def test_nothing_is_ready_while_its_executor_is_down(
    server: ServerProcess, http: httpx.Client
) -> None:
    """A killed worker must not leave `ready` at 200 while every inference fails."""
    with Client(server.url) as client:
        pid = executor_pid(client)
    kill(pid)
    wait_until(lambda: http.get("/v2/health/ready").status_code == 503, "its death is noticed")
    assert http.get("/v2/health/live").status_code == 200
    found = {http.get(path).status_code for path in ("/v2/health/ready", "/v2/models/net/ready")}
    assert found <= {200, 503}
    wait_until(lambda: http.get("/v2/models/net/ready").status_code == 200, "the model is ready")
    assert http.post(INFER, json=numbers(X)).status_code == 200


def test_a_model_with_a_job_stays_loaded(
    server: ServerProcess, http: httpx.Client, tmp_path: Path
) -> None:
    with Client(server.url) as client:
        client.bind(
            "net",
            [{"name": "data", "shape": [4, FEATURES]}],
            label_shapes=[{"name": "softmax_label", "shape": [4]}],
        )
        data = {"data": np.zeros((40, FEATURES), "f"), "softmax_label": np.zeros(40, "f")}
        file = tmp_path / "zeros.npz"
        np.savez(file, **data)
        client.put_dataset("zeros", file)
        job = client.fit(
            "net", dataset="zeros", epochs=100_000, batch_size=4, optimizer={"name": "sgd"}
        )
        wait_until(lambda: client.job(job["id"])["status"] == "running", "the job runs")
        answer = http.post("/v2/repository/models/net/unload")
        assert answer.status_code in (400, 503)
        assert answer.json()["error"]
        assert http.post(INFER, json=numbers(X)).status_code == 200
        client.cancel(job["id"])
        client.wait(job["id"])


def test_metadata_of_models_with_and_without_a_ragged_axis(http: httpx.Client) -> None:
    """-1 marks dimensions that vary between requests, in inputs and outputs."""
    data = mx.sym.Variable("data")
    steps = mx.sym.FullyConnected(data, num_hidden=3, flatten=False, name="fc")
    with Client(str(http.base_url).rstrip("/")) as client:
        client.create_module("ragged", steps.tojson(), buckets=[2, 4])
        shapes = [{"name": "data", "shape": [4, None, 5], "layout": "NTC"}]
        client.bind("ragged", shapes, for_training=False)
        client.init_params("ragged", seed=1)
    found = http.get("/v2/models/ragged").json()
    assert found["inputs"] == [{"name": "data", "datatype": "FP32", "shape": [-1, -1, 5]}]
    assert found["outputs"] == [{"name": "fc_output", "datatype": "FP32", "shape": [-1, -1, 3]}]
    config = http.get("/v2/models/ragged/config").json()
    assert config["input"] == [{"name": "data", "data_type": "TYPE_FP32", "dims": [-1, 5]}]
    for length in (1, 2, 3, 4):
        raw = np.ones((1, length, 5), "f").tobytes()
        answer = http.post(
            "/v2/models/ragged/infer",
            content=raw,
            headers={"inference-header-content-length": "0"},
        )
        assert data_of(answer).shape == (1, length, 3)
