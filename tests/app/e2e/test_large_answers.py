"""Small requests with large answers: they are written in pieces, and limited in total."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

import core as mx
from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served.processes import ENVIRONMENT, executor_pid, wait_until

MIB = 2**20
WIDTH = 1024
LIMIT = 48 * MIB
"""Of all answers; one may have half of it."""
IDS = np.arange(4000, dtype=np.int32) % 50
"""Their vectors take 16 MB, a third of the limit, and 80 MB as JSON."""
TOO_MANY = np.zeros(6500, np.int32)
MOST_GROWTH = 40 * MIB
"""The outputs in shared memory, and a block of their JSON."""


@pytest.fixture(scope="module")
def weight() -> np.ndarray:
    return np.random.default_rng(3).random((50, WIDTH), np.float32)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, weight: np.ndarray) -> Iterator[ServerProcess]:
    environment = ENVIRONMENT | {"MODSERVE_MAX_ANSWERS_BYTES": str(LIMIT)}
    net = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=50, output_dim=WIDTH, name="words")
    directory = tmp_path_factory.mktemp("answers")
    with running_server(directory, environment=environment) as server, Client(server.url) as client:
        client.create_module("net", net.tojson())
        client.bind("net", data_shapes=[{"name": "data", "shape": [1]}])
        client.set_params("net", {"words_weight": weight})
        client.predict("net", data=np.zeros(1, np.float32))
        yield server


def peak_bytes(pid: int) -> int:
    """Return the largest resident memory since ``forget_peak``."""
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("VmHWM:"))


def forget_peak(pid: int) -> int:
    """Begin to measure the peak anew, and return it."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return peak_bytes(pid)


def as_v1(ids: np.ndarray) -> tuple[str, bytes]:
    return "/v1/modules/net/predict", json.dumps({"inputs": {"data": ids.tolist()}}).encode()


def as_v2(ids: np.ndarray) -> tuple[str, bytes]:
    tensor = {"name": "data", "datatype": "FP32", "shape": [len(ids)], "data": ids.tolist()}
    return "/v2/models/net/infer", json.dumps({"inputs": [tensor]}).encode()


def sending(url: str, path: str, body: bytes, version: str) -> socket.socket:
    """Return a connection on which a request was sent, and nothing read."""
    parts = urlsplit(url)
    head = (
        f"POST {path} HTTP/{version}\r\nhost: {parts.netloc}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    assert parts.hostname is not None
    assert parts.port is not None
    client = socket.create_connection((parts.hostname, parts.port))
    client.sendall(head.encode() + body)
    return client


def vectors(answer: httpx.Response) -> np.ndarray:
    outputs = answer.json()["outputs"]
    data = outputs[0] if isinstance(outputs, list) else outputs["words_output"]
    return np.asarray(data["data"], np.float32).reshape(-1, WIDTH)


@pytest.mark.parametrize("is_long", [False, True], ids=["short_body", "long_body"])
@pytest.mark.parametrize("request_of", [as_v1, as_v2])
def test_a_large_json_answer_takes_no_memory_of_its_own(
    server: ServerProcess,
    weight: np.ndarray,
    request_of: Callable[[np.ndarray], tuple[str, bytes]],
    is_long: bool,
) -> None:
    path, body = request_of(IDS)
    body += b" " * (20_000 if is_long else 0)  # over 16 KiB the fast path does not take it
    before = forget_peak(server.process.pid)
    answer = httpx.post(
        server.url + path, content=body, headers={"content-type": "application/json"}, timeout=60
    )
    growth = peak_bytes(server.process.pid) - before
    assert answer.status_code == 200, answer.text[:500]
    np.testing.assert_array_equal(vectors(answer), weight[IDS])
    assert growth < MOST_GROWTH, f"{growth:,}"


@pytest.mark.parametrize("kind", ["x-npy", "x-npz", "x-safetensors"])
def test_a_large_binary_answer_takes_no_memory_of_its_own(
    server: ServerProcess, weight: np.ndarray, kind: str
) -> None:
    before = forget_peak(server.process.pid)
    with Client(server.url) as client:
        outputs = client.predict("net", data=IDS.astype(np.float32))
        path, body = as_v1(IDS)
        headers = {"content-type": "application/json", "accept": f"application/{kind}"}
        answer = httpx.post(server.url + path, content=body, headers=headers, timeout=60)
    growth = peak_bytes(server.process.pid) - before
    np.testing.assert_array_equal(outputs["words_output"], weight[IDS])
    assert weight[IDS[:50]].tobytes() in answer.content
    assert growth < MOST_GROWTH, f"{growth:,}"


@pytest.mark.parametrize("request_of", [as_v1, as_v2])
def test_an_answer_over_the_limit_is_refused_before_it_is_computed(
    server: ServerProcess, request_of: Callable[[np.ndarray], tuple[str, bytes]]
) -> None:
    with Client(server.url) as client:
        pid = executor_pid(client)
    before = forget_peak(pid)
    path, body = request_of(TOO_MANY)
    answer = httpx.post(server.url + path, content=body, timeout=60)
    assert answer.status_code == 413, answer.text[:500]
    assert "MODSERVE_MAX_ANSWERS_BYTES" in answer.text
    assert f"{TOO_MANY.size * WIDTH * 4:,}" in answer.text
    assert peak_bytes(pid) - before < 10 * MIB


def test_answers_that_nobody_reads_leave_the_others_alone(server: ServerProcess) -> None:
    path, body = as_v1(IDS)
    before = forget_peak(server.process.pid)
    with httpx.Client(base_url=server.url, timeout=60) as http, ExitStack() as silent:
        for _ in range(3):
            client = silent.enter_context(sending(server.url, path, body, "1.1"))
            assert client.recv(1) == b"H"  # it has begun, and goes no further
        refused = http.post(path, content=body)
        assert refused.status_code == 503, refused.text[:500]
        assert int(refused.headers["retry-after"]) >= 1
        small = http.post(path, content=as_v1(IDS[:2])[1])
        assert small.status_code == 200
        assert peak_bytes(server.process.pid) - before < 2 * MOST_GROWTH  # three outputs
        silent.close()
        wait_until(lambda: http.post(path, content=body).status_code == 200, "memory given back")


def test_a_connection_goes_on_after_a_long_answer(server: ServerProcess) -> None:
    path, body = as_v1(IDS)
    with httpx.Client(base_url=server.url, timeout=60) as http:
        for _ in range(2):
            answer = http.post(path, content=body)
            assert answer.status_code == 200
            assert answer.headers["transfer-encoding"] == "chunked"


def test_a_client_of_an_older_http_gets_no_chunks(
    server: ServerProcess, weight: np.ndarray
) -> None:
    path, body = as_v1(IDS)
    with sending(server.url, path, body, "1.0") as client, client.makefile("rb") as file:
        head, _, content = file.read().partition(b"\r\n\r\n")
    fields = head.decode().lower().split("\r\n")
    assert f"content-length: {len(content)}" in fields
    assert not any(field.startswith("transfer-encoding") for field in fields)
    data = json.loads(content)["outputs"]["words_output"]["data"]
    np.testing.assert_array_equal(np.asarray(data, np.float32), weight[IDS])
