"""Predictions of tens of thousands of examples, and other calls in the meantime."""

from __future__ import annotations

import io
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

from app.cli.demo.tour import BIND, MNIST
from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served import lenet
from served.processes import ENVIRONMENT, wait_until

COUNT = 15_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    limited = {**ENVIRONMENT, "MODSERVE_MAX_ANSWERS_BYTES": str(1 << 30)}
    with running_server(tmp_path_factory.mktemp("large"), environment=limited) as server:
        with Client(server.url) as client:
            client.put_dataset("mnist", MNIST)
            lenet.create(client, "lenet")
            client.bind("lenet", **BIND)
            client.init_params("lenet", "xavier", seed=1)
        yield server


def archive(count: int) -> bytes:
    stream = io.BytesIO()
    images = np.zeros((count, 1, 28, 28), np.uint8)
    images[: len(DIGITS)] = DIGITS
    np.savez_compressed(stream, data=images)
    return stream.getvalue()


DIGITS = (lenet.digits(130)[0] * 255).astype(np.uint8)


def samples(client: Client, job: int) -> int:
    """Return how many examples a fit has seen."""
    reports = client.request("GET", f"/v1/jobs/{job}").json()["progress"] or {}
    return int(reports.get("samples", 0))


def predict(url: str, body: bytes) -> np.ndarray:
    headers = {"content-type": "application/x-npz", "accept": "application/x-npz"}
    url = f"{url}/v1/modules/lenet/predict"
    answer = httpx.post(url, content=body, headers=headers, timeout=300)
    assert answer.status_code == 200, answer.text
    with np.load(io.BytesIO(answer.content)) as outputs:
        return outputs["softmax_output"]


def test_other_calls_are_answered_between_its_pieces_and_the_outputs_are_joined(
    server: ServerProcess,
) -> None:
    body = archive(COUNT)
    assert len(body) < 2**17  # by its bytes it is a small request, thanks to compression
    with Client(server.url) as client, ThreadPoolExecutor(2) as pool:
        job = lenet.fit(client, "lenet", epochs=1000)
        wait_until(lambda: client.job(job)["status"] == "running", "the fit runs")
        wait_until(lambda: samples(client, job) > 0, "it trains")
        trained = samples(client, job)
        large = [pool.submit(predict, server.url, body) for _ in range(2)]
        answered = 0
        while not all(one.done() for one in large):
            client.predict("lenet", data=DIGITS[:1])
            client.job(job)
            answered += 1
        assert answered > 20
        assert samples(client, job) > trained
        assert all(one.result().shape == (COUNT, 10) for one in large)
        client.cancel(job)
        assert client.wait(job)["status"] == "cancelled"
        outputs = predict(server.url, body)
        for start in (0, 64):
            rows = slice(start, start + 64)
            few = client.predict("lenet", data=DIGITS[rows])["softmax_output"]
            np.testing.assert_array_equal(outputs[rows], few)
        np.testing.assert_allclose(outputs[200], outputs[-1], rtol=1e-5)


@pytest.mark.serial
def test_a_disconnected_client_frees_its_place(server: ServerProcess) -> None:
    """Compare the time of a prediction after 16 abandoned ones with its time alone.

    If those were computed to their end, it would take 17 times as long. Other load on the machine
    may slow down some of the tries.
    """
    body = archive(COUNT)
    found = []
    for _ in range(4):
        alone = timed(server.url, body)
        found.append(after_hangups(server.url, body) / alone)
        if found[-1] < 5:
            break
    assert min(found) < 5


def timed(url: str, body: bytes) -> float:
    started = time.monotonic()
    predict(url, body)
    return time.monotonic() - started


def after_hangups(url: str, body: bytes) -> float:
    """Return how long a prediction takes after 16 clients have asked for it and hung up."""
    address = urlsplit(url)
    clients = []
    for _ in range(16):
        client = socket.create_connection((address.hostname, address.port))
        head = "POST /v1/modules/lenet/predict HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        head += f"content-type: application/x-npz\r\ncontent-length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        clients.append(client)

    def is_busy() -> bool:
        return httpx.get(f"{url}/v1/executors").json()["items"][0]["doing"] == "predict"

    wait_until(is_busy, "one of them is being computed")
    for client in clients:
        client.close()
    return timed(url, body)


def test_outputs_over_the_limit_are_refused_at_once(server: ServerProcess) -> None:
    symbol = {
        "nodes": [
            {"op": "null", "name": "data", "inputs": []},
            {
                "op": "broadcast_axis",
                "name": "wide",
                "attrs": {"axis": "1", "size": "100000"},
                "inputs": [[0, 0, 0]],
            },
        ],
        "arg_nodes": [0],
        "heads": [[1, 0, 0]],
        "attrs": {"mxnet_version": ["int", 10901]},
    }
    with Client(server.url) as client:
        client.create_module("wide", json.dumps(symbol))
        shapes = [{"name": "data", "shape": [4, 1]}]
        client.bind("wide", data_shapes=shapes, for_training=False)
        client.init_params("wide", "zero")
        assert client.predict("wide", data=np.ones((200, 1)))["wide_output"].shape == (200, 100000)
        body = {"inputs": {"data": [[1.0]] * 3000}}
        answer = httpx.post(f"{server.url}/v1/modules/wide/predict", json=body, timeout=60)
        assert answer.status_code == 413, answer.text[:1000]
        assert answer.json()["code"] == "too_large"
        assert "fewer examples" in answer.json()["detail"]
