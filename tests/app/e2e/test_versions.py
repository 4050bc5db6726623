"""Versions of a module on a real server: promoted, rolled back, canaried, kept, damaged."""

from __future__ import annotations

import io
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from app.client import Client, ClientError
from app.client.local_server import ServerProcess, running_server, start_server
from served.network import BATCH, BIND, FEATURES, NETWORK, examples_npz, fit_body
from served.processes import ENVIRONMENT, end_executor, wait_until

EXAMPLE = np.random.RandomState(0).rand(1, FEATURES).astype("f")
VERSIONS = (0, 1, 2)
TOLERANCE = 1e-6

Outputs = Mapping[str, np.ndarray]
"""What each version answers to the example."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for the test's own server."""
    return tmp_path / "server"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running_server(tmp_path_factory.mktemp("server"), environment=ENVIRONMENT) as server:
        yield server


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    """A client of the server, which has no modules and datasets yet."""
    with Client(server.url) as client:
        yield client
        for module in client.modules():
            client.delete_module(module["name"])
        for dataset in client.datasets():
            client.delete_dataset(dataset["name"])


@pytest.fixture
def outputs(client: Client) -> Outputs:
    """A module ``net`` with versions of random parameters and different live ones."""
    return prepare(client)


def prepare(client: Client) -> Outputs:
    client.create_module("net", NETWORK)
    client.bind("net", **BIND)
    found = {}
    for seed in (*VERSIONS, 9):
        client.init_params("net", "xavier", seed=seed)
        name = "live" if seed == 9 else str(seed)
        found[name] = client.predict("net", data=EXAMPLE)["softmax_output"]
        if seed != 9:
            client.save_checkpoint("net", seed)
    pairs = itertools.combinations(found.values(), 2)
    assert min(np.abs(one - other).max() for one, other in pairs) > 100 * TOLERANCE
    return found


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def ask(
    http: httpx.Client | ServerProcess, path: str = "/v1/modules/net/predict", **changes: Any
) -> httpx.Response:
    """Request a prediction, in the fast path unless the body is chunked."""
    headers = {"content-type": "application/x-npy", "accept": "application/x-npy"}
    options = {"content": npy(EXAMPLE), "headers": headers, "timeout": 60} | changes
    if isinstance(http, ServerProcess):
        return httpx.post(http.url + path, **options)
    return http.post(path, **options)


def compare(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


def check(response: httpx.Response, outputs: Outputs, version: str) -> None:
    """Compare an answer with the version's expected output."""
    assert response.status_code == 200, response.text
    assert response.headers["x-model-version"] == version
    compare(np.load(io.BytesIO(response.content)), outputs[version])


def refuse(call: Callable[[], Any]) -> tuple[int, str]:
    with pytest.raises(ClientError) as refusal:
        call()
    return refusal.value.status, refusal.value.problem["code"]


@pytest.mark.parametrize("is_chunked", [False, True], ids=["fast path", "router"])
def test_each_version_answers_under_all_of_its_names(
    server: ServerProcess, client: Client, outputs: Outputs, is_chunked: bool
) -> None:
    client.set_version_label("net", "stable", 1)
    names = {"0": "0", "1": "1", "2": "2", "live": "live", "latest": "2", "stable": "1"}

    def body() -> dict[str, Any]:
        return {"content": iter([npy(EXAMPLE)])} if is_chunked else {}

    for _ in range(2):
        for name, version in names.items():
            path = f"/v1/modules/net/versions/{name}/predict"
            check(ask(server, path, **body()), outputs, version)
            path = f"/v1/modules/net/predict?version={name}"
            check(ask(server, path, **body()), outputs, version)
        check(ask(server, **body()), outputs, "live")
    for name, version in names.items():
        found = client.predict_with_version("net", name, data=EXAMPLE)["softmax_output"]
        compare(found, outputs[version])


def test_json_answers_and_the_open_inference_protocol_name_the_version(
    server: ServerProcess, client: Client, outputs: Outputs
) -> None:
    client.promote("net", 1)
    body = {"inputs": {"data": EXAMPLE.tolist()}}
    answer = httpx.post(f"{server.url}/v1/modules/net/predict", json=body)
    assert answer.json()["version"] == answer.headers["x-model-version"] == "1"
    tensor = {"name": "data", "datatype": "FP32", "shape": [1, FEATURES]}
    infer = {"inputs": [{**tensor, "data": EXAMPLE.ravel().tolist()}]}
    for path, version in [("", "1"), ("/versions/2", "2"), ("/versions/live", "live")]:
        answer = httpx.post(f"{server.url}/v2/models/net{path}/infer", json=infer)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert found["model_version"] == version
        data = np.array(found["outputs"][0]["data"], "f").reshape(1, -1)
        compare(data, outputs[version])


def test_promoting_rolling_back_and_a_canary(
    server: ServerProcess, client: Client, outputs: Outputs
) -> None:
    assert client.promote("net", 0)["promoted"] == "0"
    check(ask(server), outputs, "0")
    client.promote("net", "latest")
    check(ask(server), outputs, "2")
    listed = client.roll_back("net")
    assert (listed["promoted"], listed["earlier"]) == ("0", ["live"])
    check(ask(server), outputs, "0")
    assert client.set_canary("net", 1, 0.5)["canary"] == {"version": 1, "weight": 0.5}
    with httpx.Client(base_url=server.url) as http:
        found = Counter(ask(http).headers["x-model-version"] for _ in range(200))
    assert set(found) == {"0", "1"}
    assert min(found.values()) > 50  # of 200 draws at 0.5: wrongly fails once in 10^12 runs
    check(ask(server, "/v1/modules/net/predict?version=2"), outputs, "2")
    client.remove_canary("net")
    client.promote("net", "live")
    check(ask(server), outputs, "live")
    assert client.roll_back("net")["promoted"] == "0"
    assert client.roll_back("net")["promoted"] == "live"
    with pytest.raises(ClientError) as refusal:
        client.roll_back("net")
    assert refusal.value.problem["code"] == "conflict"


def test_no_request_is_dropped_while_versions_change(
    server: ServerProcess, client: Client, outputs: Outputs
) -> None:
    """Eight clients predict while versions are promoted, rolled back, canaried and labelled."""
    client.promote("net", 0)
    is_over = threading.Event()

    def predict(number: int) -> Counter[str]:
        found: Counter[str] = Counter()
        with httpx.Client(base_url=server.url, timeout=60) as http:
            while not is_over.is_set():
                # Some go to the router: their bodies are chunked.
                changes = {"content": iter([npy(EXAMPLE)])} if number % 4 == 0 else {}
                response = ask(http, **changes)
                version = response.headers.get("x-model-version", "")
                check(response, outputs, version)
                found[version] += 1
        return found

    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(predict, number) for number in range(8)]
        try:
            for turn in range(12):
                client.promote("net", turn % 3)
                client.set_canary("net", (turn + 1) % 3, 0.3)
                client.set_version_label("net", "stable", (turn + 2) % 3)
                client.roll_back("net")
                client.remove_canary("net")
        finally:
            is_over.set()
        found = sum((future.result(timeout=60) for future in futures), Counter())
    assert {"0", "1", "2"} <= set(found)


def test_a_fit_does_not_change_a_promoted_versions_answers(
    server: ServerProcess, client: Client, outputs: Outputs, tmp_path: Path
) -> None:
    """It goes on counting, and one that is told to begin before the promoted version is refused."""
    client.promote("net", 1)
    file = tmp_path / "examples.npz"
    file.write_bytes(examples_npz(400))
    client.put_dataset("examples", file)
    again = fit_body(epochs=4, batch_size=BATCH, begin_epoch=0)
    assert refuse(lambda: client.fit("net", **again)) == (409, "in_use")
    job = client.fit("net", **fit_body(epochs=2, batch_size=BATCH))
    assert job["versions"] == {"first": 3, "last": 4}
    asked = 0
    while client.job(job["id"])["status"] not in ("succeeded", "failed", "cancelled"):
        check(ask(server), outputs, "1")
        asked += 1
    assert asked
    assert client.job(job["id"])["status"] == "succeeded"
    check(ask(server), outputs, "1")
    end_executor(client)
    check(ask(server), outputs, "1")
    listed = client.versions("net")
    replaced = {one["version"]: one["replaced"] for one in listed["items"]}
    assert replaced == {0: False, 1: False, 2: False, 3: False, 4: False}
    # Once it is no longer in use, nor the one to roll back to, a fit may replace it.
    client.promote("net", 4)
    client.promote("net", 3)
    assert client.wait(client.fit("net", **again | {"epochs": 2})["id"])["status"] == "succeeded"
    now = np.load(io.BytesIO(ask(server, "/v1/modules/net/predict?version=1").content))
    assert np.abs(now - outputs["1"]).max() > TOLERANCE
    newest = ask(server, "/v1/modules/net/predict?version=latest")
    assert newest.headers["x-model-version"] == "2"


def test_a_damaged_promoted_version_is_refused_and_the_others_answer(
    folder: Path, tmp_path: Path
) -> None:
    with running_server(folder, environment=ENVIRONMENT) as server, Client(server.url) as client:
        outputs = prepare(client)
        client.promote("net", 1)
    file = folder / "modules" / "net" / "versions" / "1" / "net-0001.params"
    sound = file.read_bytes()
    file.write_bytes(sound[:-1] + b"!")  # the checkpoint's own file too: it is a hard link
    other = folder / "modules" / "net" / "checkpoints" / "2" / "net-0002.params"
    other.write_bytes(b"")
    with running_server(folder, environment=ENVIRONMENT) as server, Client(server.url) as client:
        for _ in range(3):
            for changes in ({}, {"content": iter([npy(EXAMPLE)])}):
                refused = ask(server, **changes)
                assert refused.status_code == 503
                assert refused.json()["code"] == "version_damaged"
                assert "net-0001.params" in refused.json()["detail"]
                assert "/v1/modules/net/rollback" in refused.json()["detail"]
                assert "retry-after" not in refused.headers  # waiting does not help
        check(ask(server, "/v1/modules/net/predict?version=0"), outputs, "0")
        check(ask(server, "/v1/modules/net/predict?version=live"), outputs, "live")
        assert refuse(lambda: client.promote("net", 2)) == (503, "version_damaged")
        assert refuse(lambda: client.set_canary("net", 2, 0.5)) == (503, "version_damaged")
        assert client.versions("net")["promoted"] == "1"
        file.write_bytes(sound)
        wait_until(lambda: ask(server).status_code == 200, "the version with its file repaired")
        check(ask(server), outputs, "1")
        client.roll_back("net")
        check(ask(server), outputs, "live")


def test_versions_in_use_are_kept(
    server: ServerProcess, client: Client, outputs: Outputs, tmp_path: Path
) -> None:
    client.promote("net", 0)
    client.set_version_label("net", "stable", 1)
    for version, part in (("0", "promoted"), ("1", "label stable")):
        with pytest.raises(ClientError) as refusal:
            client.delete_checkpoint("net", version)
        assert refusal.value.problem["code"] == "in_use"
        assert part in refusal.value.problem["detail"]
    file = tmp_path / "examples.npz"
    file.write_bytes(examples_npz())
    client.put_dataset("examples", file)
    body = fit_body(epochs=6, begin_epoch=3, checkpoint={"epochs": 1, "keep": 1})
    client.wait(client.fit("net", **body)["id"])
    assert [one["version"] for one in client.versions("net")["items"]] == [6, 1, 0]
    check(ask(server), outputs, "0")
    client.remove_version_label("net", "stable")
    client.delete_checkpoint("net", 1)
    refused = ask(server, "/v1/modules/net/predict?version=1")
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    client.promote("net", 6)
    client.delete_checkpoint("net", 0)
    client.roll_back("net")  # to the one promoted before, whose files were kept
    check(ask(server), outputs, "0")


def test_a_server_killed_during_promotions_has_one_version_or_the_other(folder: Path) -> None:
    with running_server(folder, environment=ENVIRONMENT) as server, Client(server.url) as client:
        outputs = prepare(client)
        client.promote("net", 0)
    for turn in range(3):
        server = start_server(folder, environment=ENVIRONMENT)
        killed = threading.Timer(0.05 + 0.1 * turn, server.process.kill)
        try:
            with Client(server.url) as client:
                check(ask(server), outputs, client.versions("net")["promoted"])
                killed.start()
                promote_until_it_dies(client)
        finally:
            server.process.kill()
            server.process.wait()
            killed.cancel()
    with running_server(folder, environment=ENVIRONMENT) as server, Client(server.url) as client:
        check(ask(server), outputs, client.versions("net")["promoted"])
        client.promote("net", 2)
        check(ask(server), outputs, "2")


def promote_until_it_dies(client: Client) -> None:
    for version in itertools.cycle((1, 2, 0)):
        try:
            client.promote("net", version)
        except httpx.TransportError:
            return


def test_versions_are_restored_after_the_death_of_their_executor(
    server: ServerProcess, client: Client, outputs: Outputs
) -> None:
    """The promoted one even where the live parameters are lost."""
    client.promote("net", 1)
    client.set_params("net", client.params("net"))  # only in memory
    end_executor(client)
    check(ask(server), outputs, "1")
    lost = ask(server, "/v1/modules/net/predict?version=live")
    assert (lost.status_code, lost.json()["code"]) == (409, "params_lost")
    with pytest.raises(ClientError, match="params_lost"):
        client.promote("net", "live")
    check(ask(server), outputs, "1")


def test_a_rebound_module_keeps_its_versions(
    server: ServerProcess, client: Client, outputs: Outputs
) -> None:
    client.promote("net", 1)
    check(ask(server), outputs, "1")
    client.bind("net", [{"name": "data", "shape": [16, FEATURES]}], for_training=False)
    check(ask(server), outputs, "1")
    assert refuse(lambda: client.save_checkpoint("net", 1)) == (409, "in_use")
    check(ask(server), outputs, "1")
    check(ask(server, "/v1/modules/net/predict?version=live"), outputs, "live")


def test_invalid_changes_leave_everything_as_it_was(
    server: ServerProcess, client: Client, outputs: Outputs
) -> None:
    before = client.versions("net")
    assert refuse(lambda: client.promote("net", 7)) == (404, "not_found")
    assert refuse(lambda: client.promote("net", "beta")) == (404, "not_found")
    assert refuse(lambda: client.promote("other", 1)) == (404, "not_found")
    assert refuse(lambda: client.set_canary("net", 1, 1.5)) == (422, "invalid")
    assert refuse(lambda: client.set_canary("net", "live", 0.5)) == (422, "invalid")
    assert refuse(lambda: client.set_version_label("net", "latest", 1)) == (422, "invalid")
    assert refuse(lambda: client.set_version_label("net", "beta", 7)) == (404, "not_found")
    assert refuse(lambda: client.remove_version_label("net", "beta")) == (404, "not_found")
    assert refuse(lambda: client.roll_back("net")) == (409, "conflict")
    for name in ("7", "beta"):
        assert refuse(lambda name=name: client.predict_with_version("net", name, data=EXAMPLE)) == (
            *(404, "not_found"),
        )
        assert ask(server, f"/v1/modules/net/predict?version={name}").status_code == 404
    assert client.versions("net") == before
    client.create_module("empty", NETWORK)
    assert refuse(lambda: client.promote("empty", "latest")) == (404, "not_found")
