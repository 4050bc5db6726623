"""Sequences of a module on two executors: each stays on one, and ends with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from app.client import Client, ClientError
from app.client.local_server import ServerProcess, running_server
from served.perceptron import FEATURES as INPUTS
from served.perceptron import perceptron
from served.processes import ENVIRONMENT, kill, wait_until
from served.recurrent import FEATURES, fused, links, long_pass

STEPS, PARTS, SEQUENCES = 4, 5, 16
TWO = {**ENVIRONMENT, "MODSERVE_DEVICES": '["cpu(0)", "cpu(1)"]'}
SYMBOL = fused("gru")


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("sequences")
    with running_server(folder, environment=TWO) as server, Client(server.url) as client:
        add(client)
        yield server


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


def add(client: Client) -> None:
    shape = [STEPS, 8, FEATURES]
    client.create_module("gru", SYMBOL.tojson(), label_names=[], state_names=["h"])
    client.bind("gru", [{"name": "data", "shape": shape, "layout": "TNC"}])
    client.init_params("gru", "uniform", seed=7, options={"scale": 0.7})
    client.save_checkpoint("gru", 0)
    client.promote("gru", 0)
    client.set_serving("gru", states=links(SYMBOL, ("h",)), instances=2)
    wait_ready(client)


def begin_all(server: ServerProcess) -> list[np.ndarray]:
    """Send the first part of all sequences at the same time."""
    together = threading.Barrier(SEQUENCES)

    def begin(number: int) -> np.ndarray:
        with Client(server.url) as own:
            together.wait(30)
            return feed(own, number, 0)

    with ThreadPoolExecutor(SEQUENCES) as pool:
        return list(pool.map(begin, range(SEQUENCES)))


def wait_ready(client: Client) -> None:
    wait_until(
        lambda: [one["state"] for one in client.module("gru")["instances"]] == ["ready"] * 2,
        "two instances that are ready",
    )


def data_of(number: int) -> np.ndarray:
    return np.random.default_rng(number).normal(size=(PARTS * STEPS, 1, FEATURES)).astype("f")


def feed(client: Client, number: int, position: int, *, is_json: bool = False) -> np.ndarray:
    """Send a part of a sequence, flagged if first or last; return the outputs."""
    part = data_of(number)[position * STEPS :][:STEPS]
    start, end = position == 0, position == PARTS - 1
    if not is_json:
        found = client.predict_part("gru", str(number), start=start, end=end, data=part)
        return next(iter(found.values()))
    flags = {"sequence_id": str(number), "sequence_start": start, "sequence_end": end}
    body = {"inputs": {"data": part.tolist()}, **flags}
    answer = client.request("POST", "/v1/modules/gru/predict", json=body)
    return np.array(next(iter(answer.json()["outputs"].values()))["data"], "f")


def code_of(client: Client, number: int, position: int) -> str:
    with pytest.raises(ClientError) as error:
        feed(client, number, position)
    return str(error.value.problem["code"])


def outcome(client: Client, number: int) -> tuple[str | None, np.ndarray | None]:
    """Send the second part of a sequence; return the error's code, or the outputs."""
    try:
        return None, feed(client, number, 1)
    except ClientError as error:
        return error.problem["code"], None


def pid_of(client: Client) -> int | None:
    (found,) = [one for one in client.executors() if one["name"] == "cpu(1)"]
    return found.get("pid") if found["alive"] else None


def answers(client: Client) -> list[int]:
    return [one["predictions"] for one in client.module("gru")["instances"]]


def test_each_sequence_is_like_one_long_pass_and_they_are_spread(
    server: ServerProcess, client: Client
) -> None:
    before, params, together = answers(client), client.params("gru"), threading.Barrier(SEQUENCES)

    def run(number: int) -> np.ndarray:
        with Client(server.url) as own:
            together.wait(30)
            found = []
            for position in range(PARTS):
                found.append(feed(own, number, position, is_json=number % 2 == 0))
            return np.concatenate(found)

    with ThreadPoolExecutor(SEQUENCES) as pool:
        found = list(pool.map(run, range(SEQUENCES)))
    for number, outputs in enumerate(found):
        expected = long_pass(SYMBOL, params, data_of(number))
        np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)
    counts = np.subtract(answers(client), before)
    assert sum(counts) == SEQUENCES * PARTS
    assert min(counts) >= PARTS
    assert code_of(client, 0, 1) == "sequence_lost", "it has ended"


def test_sequences_of_a_dead_executor_are_lost_and_the_others_continue(
    server: ServerProcess, client: Client
) -> None:
    params, first = client.params("gru"), begin_all(server)
    assert {code_of(client, number, 0) for number in range(SEQUENCES)} == {"conflict"}
    pid = pid_of(client)
    kill(pid)
    wait_until(lambda: pid_of(client) not in (None, pid), "another process")
    wait_ready(client)
    lost = []
    for number in range(SEQUENCES):
        code, second = outcome(client, number)
        if second is None:
            assert code == "sequence_lost"
            lost.append(number)
        else:
            expected = long_pass(SYMBOL, params, data_of(number))[: 2 * STEPS]
            found = np.concatenate([first[number], second])
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert 0 < len(lost) < SEQUENCES
    for number in lost:
        again = feed(client, number, 0)
        np.testing.assert_allclose(again, first[number], rtol=1e-5, atol=1e-6)


def test_an_evicted_version_is_loaded_again_where_its_states_are(tmp_path: Path) -> None:
    """Between two parts another module takes the memory, and another version is promoted."""
    settings = TWO | {"MODSERVE_MEMORY_BUDGET": "16384"}
    with running_server(tmp_path, environment=settings) as server, Client(server.url) as client:
        client.create_module("other", perceptron().tojson(), executor="cpu(1)")
        client.bind("other", [{"name": "data", "shape": [1, INPUTS]}], for_training=False)
        client.init_params("other", seed=1)
        add(client)
        params, before = client.params("gru"), answers(client)
        first = begin_all(server)
        assert min(np.subtract(answers(client), before)) > 0
        client.save_checkpoint("gru", 1)
        client.promote("gru", 1)
        client.predict("other", data=np.ones((1, INPUTS), np.float32))
        for is_json in (False, True):
            for number in range(is_json, SEQUENCES, 2):
                second = feed(client, number, 1, is_json=is_json)
                expected = long_pass(SYMBOL, params, data_of(number))[: 2 * STEPS]
                found = np.concatenate([first[number], second])
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
            client.predict("other", data=np.ones((2, INPUTS), np.float32))
        log = server.log.read_text()
        assert "released a version of module gru@" in log
