"""The fast path answers like the router, however a request's bytes arrive."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import httpx
import numpy as np
import pytest

from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served.perceptron import perceptron
from served.pictures import picture
from served.processes import ENVIRONMENT, wait_until
from served.sockets import connect, read_answer

FEATURES = 8


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running_server(tmp_path_factory.mktemp("fast_path"), environment=ENVIRONMENT) as server:
        with Client(server.url) as client:
            client.create_module("net", perceptron().tojson())
            bind(client, "net", 4, FEATURES)
            client.init_params("net", seed=3)
            client.predict("net", data=examples(1))  # from now on the fast path knows the module
        yield server


@pytest.fixture(scope="module")
def expected(server: ServerProcess) -> np.ndarray:
    """The outputs as the router answers them: the body is chunked."""
    answer = httpx.post(
        f"{server.url}/v1/modules/net/predict",
        content=iter([npy(examples(16))]),
        headers={"content-type": "application/x-npy", "accept": "application/x-npy"},
    )
    assert answer.request.headers["transfer-encoding"] == "chunked"
    return np.load(io.BytesIO(answer.content))


def bind(client: Client, module: str, rows: int, features: int) -> None:
    client.bind(module, [{"name": "data", "shape": [rows, features]}], for_training=False)


def examples(count: int, first: int = 0) -> np.ndarray:
    """Return that many examples, starting at a number."""
    rows = [np.random.default_rng(n).random(FEATURES) for n in range(first, first + count)]
    return np.array(rows, "f")


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def request(body: bytes, path: str = "/v1/modules/net/predict", *lines: str) -> bytes:
    head = [
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Content-Length: {len(body)}",
        "Content-Type: application/x-npy",
        "Accept: application/x-npy",
        *lines,
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


def output(answer: Any) -> np.ndarray:
    return np.load(io.BytesIO(answer.body))


@pytest.mark.parametrize("pieces", [1, 2, 7, 50])
def test_a_request_may_arrive_in_any_fragments(
    server: ServerProcess, expected: np.ndarray, pieces: int
) -> None:
    text = request(npy(examples(1)))
    size = -(-len(text) // pieces)
    with connect(server.url) as sock:
        for _ in range(3):  # the head is cached from the second time on
            for begin in range(0, len(text), size):
                sock.sendall(text[begin : begin + size])
                time.sleep(0.002)
            answer = read_answer(sock)
            assert answer.status == 200
            np.testing.assert_array_equal(output(answer), expected[:1])


def npy_of_version_2(array: np.ndarray) -> bytes:
    """An npy file whose header has a length of four bytes and no spaces at its end."""
    form = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
    header = str(form).encode()
    return b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header + array.tobytes()


def test_npy_of_version_2_is_read_to_the_end_of_its_header(
    server: ServerProcess, expected: np.ndarray
) -> None:
    text = npy_of_version_2(examples(1))
    with connect(server.url) as sock:
        sock.sendall(request(text))
        np.testing.assert_array_equal(output(read_answer(sock)), expected[:1])


def test_npy_of_version_2_that_lacks_two_bytes_is_refused(server: ServerProcess) -> None:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, examples(1), version=(2, 0))
    with connect(server.url) as sock:
        sock.sendall(request(stream.getvalue()[:-2]))
        answer = read_answer(sock)
    assert answer.status == 422
    assert json.loads(answer.body)["code"] == "damaged"


def test_pipelined_requests_are_answered_in_order(
    server: ServerProcess, expected: np.ndarray
) -> None:
    texts = [request(npy(examples(1, number))) for number in range(16)]
    between = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with connect(server.url) as sock, sock.makefile("rb") as stream:
        sock.sendall(b"".join(texts[:8]) + between + b"".join(texts[8:]))
        for number in range(16):
            if number == 8:
                assert json.loads(next_body(stream))
            found = np.load(io.BytesIO(next_body(stream)))
            np.testing.assert_allclose(found, expected[number : number + 1], rtol=1e-6)


def test_concurrent_requests_get_their_own_answers(
    server: ServerProcess, expected: np.ndarray
) -> None:
    def ask(number: int) -> None:
        with connect(server.url) as sock:
            for _ in range(20):
                sock.sendall(request(npy(examples(1, number))))
                answer = read_answer(sock)
                np.testing.assert_allclose(output(answer), expected[number : number + 1], rtol=1e-6)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, range(16)))


def test_each_answer_has_a_request_id_and_the_clients_own_is_kept(server: ServerProcess) -> None:
    with connect(server.url) as sock:
        ids = []
        for _ in range(3):
            sock.sendall(request(npy(examples(1))))
            answer = read_answer(sock)
            ids.append(answer.headers["x-request-id"])
            assert float(answer.headers["server-timing"].removeprefix("app;dur=")) > 0
        assert len(set(ids)) == 3
        sock.sendall(request(npy(examples(1)), "/v1/modules/net/predict", "X-Request-Id: mine-7"))
        assert read_answer(sock).headers["x-request-id"] == "mine-7"


def next_body(stream: BinaryIO) -> bytes:
    """Return the body of the next of several answers."""
    assert stream.readline().startswith(b"HTTP/1.1 200")
    size = 0
    while (line := stream.readline().strip().lower()) != b"":
        if line.startswith(b"content-length:"):
            size = int(line.split(b":")[1])
    return stream.read(size)


WRONG = {
    "an array of the wrong shape": npy(np.zeros((1, 3), "f")),
    "no examples": npy(np.zeros((0, FEATURES), "f")),
    "text": npy(np.array(["a"])),
    "half an array": npy(examples(1))[:-4],
    "an incomplete header": b"\x93NUMPY\x01\x00\x06\x00{'descr",
    "complex numbers": npy(np.zeros((1, FEATURES), "c8")),
    "nothing": b"",
    "64 axes": npy(np.zeros((1,) * 32, "f")),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_match_the_routers(server: ServerProcess, name: str) -> None:
    body = WRONG[name]
    headers = {"content-type": "application/x-npy"}
    url = f"{server.url}/v1/modules/net/predict"
    with httpx.Client() as client:
        here = client.post(url, content=body, headers=headers)
        there = client.post(url, content=iter([body]), headers=headers)
    told = [answer.json() | {"request_id": ""} for answer in (here, there)]
    assert 400 <= here.status_code < 500
    assert told[0] == told[1]
    assert here.headers["content-type"] == there.headers["content-type"]


def test_an_image_for_a_module_without_a_transform_gets_the_routers_error(
    server: ServerProcess,
) -> None:
    url, image = f"{server.url}/v1/modules/net/predict", picture(8, 8, "PNG")
    here = httpx.post(url, content=image)
    there = httpx.post(url, content=iter([image]))
    assert "set it by PUT …/transforms/{input}" in here.json()["detail"]
    assert here.json()["detail"] == there.json()["detail"]


@pytest.mark.parametrize(
    "lines",
    [
        ["Origin: http://evil.example"],
        ["Content-Encoding: gzip"],
        ["Expect: 100-continue"],
        ["Host: another.example"],
        ["Connection: close"],
    ],
    ids=lambda lines: lines[0],
)
def test_requests_outside_the_fast_path_go_to_the_router(
    server: ServerProcess, lines: list[str]
) -> None:
    with connect(server.url) as sock:
        sock.sendall(request(npy(examples(1)), "/v1/modules/net/predict", *lines))
        first = read_answer(sock)
        if first.status == 100:
            first = read_answer(sock)
    with connect(server.url) as sock:
        sock.sendall(request(npy(examples(1)), "/v1/modules/net/predict?", *lines))
        assert read_answer(sock).status == first.status or first.status == 200


def test_a_deleted_module_is_no_longer_found(server: ServerProcess) -> None:
    with Client(server.url) as client, connect(server.url) as sock:
        client.create_module("brief", perceptron().tojson())
        bind(client, "brief", 1, FEATURES)
        client.init_params("brief", seed=1)
        text = request(npy(examples(1)), "/v1/modules/brief/predict")
        for _ in range(2):
            sock.sendall(text)
            assert read_answer(sock).status == 200
        client.delete_module("brief")
        sock.sendall(text)
        answer = read_answer(sock)
        assert answer.status == 404
        assert json.loads(answer.body)["code"] == "not_found"


def test_a_rebound_module_answers_with_its_new_shapes(server: ServerProcess) -> None:
    with Client(server.url) as client, connect(server.url) as sock:
        client.create_module("changing", perceptron().tojson())
        for features in (FEATURES, 5, FEATURES):
            bind(client, "changing", 1, features)
            client.init_params("changing", seed=1)
            for size, status in ((features, 200), (features + 1, 422)):
                text = request(npy(np.zeros((1, size), "f")), "/v1/modules/changing/predict")
                sock.sendall(text)
                assert read_answer(sock).status == status
            client.delete_module("changing")
            client.create_module("changing", perceptron().tojson())


def test_a_disconnected_client_leaves_nothing_behind(server: ServerProcess) -> None:
    text = request(npy(examples(1)))
    for _ in range(200):
        with connect(server.url) as sock:
            sock.sendall(text)
    with Client(server.url) as client:
        wait_until(lambda: client.executors()[0]["calls_under_way"] <= 1, "all calls are given up")
        (found,) = client.predict("net", data=examples(1)).values()
        assert len(found) == 1


def test_answers_are_counted_under_their_route(server: ServerProcess) -> None:
    def count() -> float:
        lines = httpx.get(f"{server.url}/metrics").text.splitlines()
        (line,) = [
            one
            for one in lines
            if one.startswith("modserve_http_requests_total")
            and 'route="/v1/modules/{module}/predict"' in one
            and 'status="200"' in one
        ]
        return float(line.split()[-1])

    before = count()
    with connect(server.url) as sock:
        for _ in range(5):
            sock.sendall(request(npy(examples(1))))
            read_answer(sock)
    assert count() == before + 5


def test_a_missing_body_times_out(tmp_path: Path) -> None:
    settings = ENVIRONMENT | {"MODSERVE_BODY_IDLE_SECONDS": "1"}
    with running_server(tmp_path, environment=settings) as server:
        with Client(server.url) as client:
            client.create_module("net", perceptron().tojson())
            bind(client, "net", 1, FEATURES)
            client.init_params("net", seed=3)
            client.predict("net", data=examples(1))
        text = request(npy(examples(1)))
        with connect(server.url) as sock:
            sock.sendall(text)
            assert read_answer(sock).status == 200
            sock.sendall(text[:-10])
            assert read_answer(sock).status == 408


def test_shutdown_waits_for_answers_in_progress(tmp_path: Path) -> None:
    with running_server(tmp_path, environment=ENVIRONMENT) as server, Client(server.url) as client:
        client.create_module("net", perceptron().tojson())
        bind(client, "net", 1, FEATURES)
        client.init_params("net", seed=3)
        client.predict("net", data=examples(1))
        # Long enough for the server to be told to stop while the request waits.
        client.set_serving("net", max_batch_size=64, max_delay_us=500_000)
        with connect(server.url) as sock:
            sock.sendall(request(npy(examples(1))))
            wait_until(lambda: is_busy(client), "the request is waiting for a batch")
            server.process.terminate()
            answer = read_answer(sock)
            assert answer.status == 200
            assert sock.recv(1) == b""


def is_busy(client: Client) -> bool:
    return client.executors()[0]["calls_under_way"] > 0


def test_requests_wait_for_a_batch_up_to_their_delay(server: ServerProcess) -> None:
    with Client(server.url) as client:
        client.create_module("patient", perceptron().tojson())
        bind(client, "patient", 1, FEATURES)
        client.init_params("patient", seed=3)
        client.predict("patient", data=examples(1))
        changed = client.set_serving("patient", max_batch_size=4, max_delay_us=500_000)
        assert changed["serving"] == client.serving("patient")
        assert changed["serving"] == {
            "max_batch_size": 4,
            "batches": "auto",
            "max_delay_us": 500_000,
            "instances": 1,
            "is_loaded": True,
            "states": [],
            "max_sequences": 1024,
            "max_sequence_idle_seconds": 600.0,
        }

    def ask(_: int) -> float:
        began = time.monotonic()
        with connect(server.url) as sock:
            sock.sendall(request(npy(examples(1)), "/v1/modules/patient/predict"))
            assert read_answer(sock).status == 200
        return time.monotonic() - began

    assert ask(0) >= 0.5, "a single request waits for others"
    with Client(server.url) as client:
        client.set_serving("patient", max_delay_us=10_000_000)
    with ThreadPoolExecutor(4) as pool:
        assert max(pool.map(ask, range(4))) < 10, "four requests fill the batch"


@pytest.mark.parametrize(
    "change",
    [
        {"max_batch_size": 0},
        {"max_delay_us": -1},
        {"max_delay_us": None},
        {"max_batch": 3},
        {"max_batch_size": "4"},
        {"batches": "often"},
    ],
)
def test_an_invalid_setting_is_refused_and_changes_nothing(
    server: ServerProcess, change: dict[str, Any]
) -> None:
    with Client(server.url) as client:
        before = client.serving("net")
        answer = httpx.patch(f"{server.url}/v1/modules/net/serving", json=change)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == next(iter(change))
        assert client.serving("net") == before
