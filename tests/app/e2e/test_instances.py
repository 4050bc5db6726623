"""A module on two executors of a real server: load spread, changed, and killed under load."""

from __future__ import annotations

import io
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from app.client import Client, ClientError
from app.client.local_server import ServerProcess, running_server
from served.network import BATCH, BIND, FEATURES, NETWORK, examples_npz, fit_body
from served.processes import ENVIRONMENT, kill, wait_until

TWO = {**ENVIRONMENT, "MODSERVE_DEVICES": '["cpu(0)", "cpu(1)"]'}
EXAMPLE = np.random.RandomState(0).rand(1, FEATURES).astype("f")
VERSIONS = (0, 1, 2)
TOLERANCE = 1e-6
CLIENTS = 8

Outputs = Mapping[str, np.ndarray]
"""What each version answers to the example."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running_server(tmp_path_factory.mktemp("server"), environment=TWO) as server:
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
    """A module ``net`` with versions on two executors; version 0 is promoted."""
    found = prepare(client)
    client.promote("net", 0)
    client.set_serving("net", instances=2)
    wait_ready(client)
    return found


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


def states(client: Client) -> list[str]:
    return [one["state"] for one in client.module("net")["instances"]]


def wait_ready(client: Client) -> None:
    wait_until(lambda: states(client) == ["ready", "ready"], "two instances that are ready")


def answers(client: Client) -> list[int]:
    """Return how many predictions each instance has answered, home first."""
    return [one["predictions"] for one in client.module("net")["instances"]]


def ask(http: httpx.Client, path: str = "/v1/modules/net/predict", **changes: Any) -> Any:
    stream = io.BytesIO()
    np.save(stream, EXAMPLE)
    content = stream.getvalue()
    headers = {"content-type": "application/x-npy", "accept": "application/x-npy"}
    if changes.pop("is_chunked", False):  # answered by the router
        changes["content"] = iter([content])
    return http.post(path, **{"content": content, "headers": headers} | changes)


def check(response: httpx.Response, outputs: Outputs, version: str) -> None:
    """Compare an answer with the version's expected output."""
    assert response.status_code == 200, response.text
    assert response.headers["x-model-version"] == version
    found = np.load(io.BytesIO(response.content))
    np.testing.assert_allclose(found, outputs[version], rtol=0, atol=TOLERANCE)


@contextmanager
def load(
    server: ServerProcess, check: Callable[[int, httpx.Client], str]
) -> Iterator[list[Counter[str]]]:
    """Run clients that send requests throughout the block.

    Yield a list which afterwards has each client's counts of what ``check`` returned.
    """
    is_over = threading.Event()
    found: list[Counter[str]] = []

    def run(number: int) -> Counter[str]:
        counts: Counter[str] = Counter()
        with httpx.Client(base_url=server.url, timeout=60) as http:
            while not is_over.is_set():
                counts[check(number, http)] += 1
        return counts

    with ThreadPoolExecutor(CLIENTS) as pool:
        futures = [pool.submit(run, number) for number in range(CLIENTS)]
        try:
            yield found
        finally:
            is_over.set()
        found += [future.result(timeout=60) for future in futures]


def executor(client: Client, name: str) -> dict[str, Any]:
    (found,) = [one for one in client.executors() if one["name"] == name]
    return found


def end_executor(client: Client, name: str) -> None:
    """Kill an executor and wait until a new process has replaced it."""
    first = executor(client, name)["pid"]
    kill(first)

    def is_replaced() -> bool:
        found = executor(client, name)
        return found["alive"] and found.get("pid", first) != first

    wait_until(is_replaced, "a new executor in place of the killed one")


@pytest.mark.parametrize("is_chunked", [False, True], ids=["fast path", "router"])
def test_both_instances_answer(
    server: ServerProcess, client: Client, outputs: Outputs, is_chunked: bool
) -> None:
    def predict(number: int, http: httpx.Client) -> str:
        check(ask(http, is_chunked=is_chunked), outputs, "0")
        return "asked"

    def is_spread() -> bool:
        return min(now - then for now, then in zip(answers(client), before, strict=True)) >= 20

    before = answers(client)
    with load(server, predict) as counts:
        wait_until(is_spread, "20 answers of each instance")
    total = sum(counts, Counter())["asked"]
    wait_until(lambda: sum(answers(client)) - sum(before) == total, "all answers counted")
    rows = client.module("net")["instances"]
    assert [(one["executor"], one["is_home"]) for one in rows] == [
        *(("cpu(0)", True), ("cpu(1)", False)),
    ]
    assert [one["rows_under_way"] for one in rows] == [0, 0]
    assert [one["name"] for one in executor(client, "cpu(1)")["modules"]] == ["net"]
    assert executor(client, "cpu(1)")["modules"][0]["is_replica"]
    metrics = httpx.get(f"{server.url}/metrics").text
    assert 'modserve_instance_predictions_total{executor="cpu(1)",module="net"}' in metrics
    config = httpx.get(f"{server.url}/v2/models/net/config").json()
    assert config["instance_group"] == [{"name": "net_0", "kind": "KIND_CPU", "count": 2}]


def test_a_live_module_in_training_is_answered_at_home(
    server: ServerProcess, client: Client, outputs: Outputs
) -> None:
    before = answers(client)

    def predict(number: int, http: httpx.Client) -> str:
        check(ask(http, "/v1/modules/net/predict?version=live"), outputs, "live")
        return "asked"

    with load(server, predict):
        wait_until(lambda: answers(client)[0] - before[0] >= 50, "answers")
    assert answers(client)[1] == before[1]


def test_a_prediction_sent_after_a_change_sees_it(
    server: ServerProcess, client: Client, outputs: Outputs
) -> None:
    """Each client notes which changes were acknowledged before it sent, and which began after."""
    acknowledged, begun = 0, 0
    order: list[str] = ["0"]

    def predict(number: int, http: httpx.Client) -> str:
        first = acknowledged
        response = ask(http, is_chunked=number % 4 == 0)
        version = response.headers.get("x-model-version", "")
        check(response, outputs, version)
        assert version in order[first : begun + 1], (version, order[first:])
        return version

    def change(version: str, make: Callable[[], Any]) -> None:
        nonlocal acknowledged, begun
        order.append(version)
        begun += 1
        make()
        acknowledged += 1

    with load(server, predict) as counts:
        for turn in range(6):
            change(str((turn + 1) % 3), lambda turn=turn: client.promote("net", (turn + 1) % 3))
            client.set_serving("net", instances=1 + turn % 2, max_batch_size=8)
            change(str(turn % 3), lambda: client.roll_back("net"))
            change(str((turn + 2) % 3), lambda turn=turn: client.promote("net", (turn + 2) % 3))
            client.bind("net", [{"name": "data", "shape": [8 + turn, FEATURES]}])
            client.set_params("net", client.params("net"))
            change(str((turn + 1) % 3), lambda turn=turn: client.promote("net", (turn + 1) % 3))
    assert {"0", "1", "2"} <= set(sum(counts, Counter()))
    wait_ready(client)


@pytest.mark.parametrize("name", ["cpu(0)", "cpu(1)"], ids=["home", "replica"])
def test_an_executor_killed_under_load(
    server: ServerProcess, client: Client, outputs: Outputs, name: str
) -> None:
    """No answer is wrong; what the killed executor was computing is refused, with Retry-After."""

    def predict(number: int, http: httpx.Client) -> str:
        response = ask(http, is_chunked=number % 4 == 0)
        if response.status_code == 200:
            check(response, outputs, "0")
            return "answered"
        assert response.status_code == 503, response.text
        assert response.json()["code"] in ("executor_gone", "executor_killed"), response.text
        assert int(response.headers["retry-after"]) > 0
        assert "@" not in response.text, response.text
        return "refused"

    def is_spread() -> bool:
        return bool(min(np.subtract(answers(client), before)) >= 20)

    before = answers(client)
    with load(server, predict) as counts:
        wait_until(is_spread, "20 answers of each instance")
        other = 1 if name == "cpu(0)" else 0
        during = answers(client)[other]
        end_executor(client, name)
        assert answers(client)[other] > during
        wait_ready(client)
        before = answers(client)
        wait_until(is_spread, "20 more answers of each instance")
    found = sum(counts, Counter())
    assert found["refused"] <= CLIENTS, "each client has one request under way"
    rows = client.module("net")["instances"]
    assert [one["rows_under_way"] for one in rows] == [0, 0]


def test_the_replica_answers_while_the_home_stays_down(
    server: ServerProcess, client: Client, outputs: Outputs
) -> None:
    """It is kept down by killing every replacement process."""
    is_over = threading.Event()

    def keep_down() -> None:
        with Client(server.url) as other:
            while not is_over.is_set():
                pid = executor(other, "cpu(0)").get("pid")
                if pid is not None:
                    with suppress(ProcessLookupError):
                        kill(pid)
                time.sleep(0.01)

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(keep_down)
        try:
            wait_until(lambda: states(client)[0] == "down", "the death of the home")
            with httpx.Client(base_url=server.url, timeout=60) as http:
                for _ in range(20):
                    check(ask(http), outputs, "0")
                refused = ask(http, "/v1/modules/net/predict?version=live")
                assert refused.status_code == 503
        finally:
            is_over.set()
        future.result(timeout=60)
    wait_ready(client)


def test_a_recreated_module_does_not_answer_for_the_old_one(
    server: ServerProcess, client: Client, outputs: Outputs
) -> None:
    """Same name, shapes and parameters, but another last layer."""
    params = client.params("net")
    client.delete_module("net")
    wait_until(lambda: not executor(client, "cpu(1)")["modules"], "the end of the replica")
    linear = {**NETWORK, "nodes": [*NETWORK["nodes"]]}
    linear["nodes"][5] = {
        "op": "LinearRegressionOutput",
        "name": "softmax",
        "inputs": [[3, 0, 0], [4, 0, 0]],
    }
    client.create_module("net", linear)
    client.bind("net", BIND["data_shapes"])
    client.set_params("net", params)
    client.save_checkpoint("net", 0)
    client.promote("net", 0)
    client.set_serving("net", instances=2)
    wait_ready(client)
    expected = EXAMPLE @ params["fc_weight"].T + params["fc_bias"]

    def predict(number: int, http: httpx.Client) -> str:
        found = np.load(io.BytesIO(ask(http).content))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
        return "asked"

    before = answers(client)
    with load(server, predict):
        wait_until(lambda: min(np.subtract(answers(client), before)) >= 20, "answers of both")


def test_a_fit_does_not_change_the_instances_answers(
    server: ServerProcess, client: Client, outputs: Outputs, tmp_path: Path
) -> None:
    """It rebinds the module to other batches, and its versions go on counting from 2."""
    client.promote("net", 1)
    file = tmp_path / "examples.npz"
    file.write_bytes(examples_npz(400))
    client.put_dataset("examples", file)

    def predict(number: int, http: httpx.Client) -> str:
        check(ask(http), outputs, "1")
        return "asked"

    with load(server, predict):
        job = client.fit("net", **fit_body(epochs=3, batch_size=2 * BATCH))
        client.wait(job["id"])
        assert client.job(job["id"])["status"] == "succeeded"
        wait_ready(client)
    trained = client.predict_with_version("net", "latest", data=EXAMPLE)["softmax_output"]
    client.promote("net", "latest")
    wait_ready(client)

    def predict_latest(number: int, http: httpx.Client) -> str:
        check(ask(http), {"5": trained}, "5")
        return "asked"

    before = answers(client)
    with load(server, predict_latest):
        wait_until(lambda: min(np.subtract(answers(client), before)) >= 20, "answers of both")


def test_more_instances_than_executors_are_refused(
    server: ServerProcess, client: Client, outputs: Outputs
) -> None:
    before = client.module("net")
    for instances in ("2", 0, 3):
        with pytest.raises(ClientError) as refusal:
            client.set_serving("net", instances=instances)
        assert refusal.value.status == 422
        assert refusal.value.problem["errors"][0]["field"] == "instances"
    assert "cpu(0), cpu(1)" in refusal.value.problem["detail"]
    assert "MODSERVE_DEVICES" in refusal.value.problem["detail"]
    after = client.module("net")
    assert (after["etag"], after["serving"]) == (before["etag"], before["serving"])


def test_one_executor_fewer_after_a_restart_is_reported(tmp_path: Path) -> None:
    with running_server(tmp_path, environment=TWO) as server, Client(server.url) as client:
        outputs = prepare(client)
        client.promote("net", 2)
        client.set_serving("net", instances=2)
        wait_ready(client)
    with running_server(tmp_path, environment=ENVIRONMENT) as server, Client(server.url) as client:
        with httpx.Client(base_url=server.url, timeout=60) as http:
            check(ask(http), outputs, "2")
        assert states(client) == ["ready", "missing"]
        assert "MODSERVE_DEVICES" in client.module("net")["instances"][1]["reason"]
        client.set_serving("net", instances=1)
        assert states(client) == ["ready"]


def test_unloading_frees_every_device(
    server: ServerProcess, client: Client, outputs: Outputs
) -> None:
    assert httpx.post(f"{server.url}/v2/repository/models/net/unload").status_code == 200
    wait_until(lambda: not any(one["modules"] for one in client.executors()), "both devices empty")
    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert ask(http).status_code == 503
        assert httpx.post(f"{server.url}/v2/repository/models/net/load").status_code == 200
        check(ask(http), outputs, "0")
    wait_ready(client)
