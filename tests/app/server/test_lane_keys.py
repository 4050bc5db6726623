"""API keys in the fast path: a head's permission is cached, and ends with its key."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from app.api.exchanges import LongBody, Respond
from app.api.security.fast_path_keys import _Limited
from app.client import Client
from app.client.local_server import ServerProcess, running_server
from app.errors.refusals import TooManyRequests
from app.services.access.rate_limiter import RateLimiter
from app.tensors.content import Content
from served.keys import add_key, revoke_key
from served.perceptron import perceptron
from served.processes import ENVIRONMENT, wait_until
from served.sockets import Answer, connect, read_answer

FEATURES = 8
REST, OIP = "/v1/modules/net/predict", "/v2/models/net/infer"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fast_path-keys")


@pytest.fixture(scope="module")
def keys(data_dir: Path) -> dict[str, str]:
    return {scope: add_key(data_dir, scope, scope) for scope in ("read", "infer", "admin")}


@pytest.fixture(scope="module")
def server(data_dir: Path, keys: dict[str, str]) -> Iterator[ServerProcess]:
    with running_server(data_dir, environment=ENVIRONMENT) as server:
        with Client(server.url, key=keys["admin"]) as client:
            client.create_module("net", perceptron().tojson())
            shapes = [{"name": "data", "shape": [4, FEATURES]}]
            client.bind("net", shapes, for_training=False)
            client.init_params("net", seed=3)
            client.predict("net", data=np.zeros((1, FEATURES), "f"))
        yield server


def npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.zeros((1, FEATURES), "f"))
    return stream.getvalue()


def oip() -> bytes:
    values = {"name": "data", "shape": [1, FEATURES], "datatype": "FP32", "data": [0] * FEATURES}
    return json.dumps({"inputs": [values]}).encode()


BODIES = {REST: npy(), OIP: oip()}


def head_of(path: str, *lines: str) -> bytes:
    fields = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(BODIES[path])}"]
    return "\r\n".join([*fields, *lines, "", ""]).encode()


def request(path: str, key: str | None, *lines: str) -> bytes:
    own = [f"Authorization: Bearer {key}"] if key else []
    return head_of(path, *own, *lines) + BODIES[path]


def ask(sock: socket.socket, text: bytes) -> Answer:
    sock.sendall(text)
    return read_answer(sock)


def is_fast(answer: Answer) -> bool:
    """Return whether the fast path answered: its request ids count up."""
    return answer.headers["x-request-id"][16:19] == "000"


@pytest.mark.parametrize("path", [REST, OIP])
def test_the_predict_scope_is_enough_for_predictions(
    server: ServerProcess, keys: dict[str, str], path: str
) -> None:
    with connect(server.url) as sock:
        for name in ("infer", "admin", "infer"):
            answer = ask(sock, request(path, keys[name]))
            assert answer.status == 200
            assert is_fast(answer)


@pytest.mark.parametrize("path", [REST, OIP])
@pytest.mark.parametrize(
    "fields",
    [
        [],
        ["Authorization: Bearer {read}", "Authorization: Bearer {infer}"],
        ["Authorization: Bearer {infer}", "Authorization: Bearer {read}"],
        ["X-API-Key: {infer}", "Authorization: Bearer {read}"],
        ["Authorization: Bearer {infer}, Bearer {infer}"],
        ["Authorization: Basic {infer}"],
        ["Authorization: Bearer x{infer}"],
    ],
)
def test_without_a_valid_key_nothing_is_answered(
    server: ServerProcess, keys: dict[str, str], path: str, fields: list[str]
) -> None:
    with connect(server.url) as sock:
        for _ in range(2):  # the refusal of a head is not cached as a permission
            answer = ask(sock, request(path, None, *[one.format(**keys) for one in fields]))
            assert answer.status == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")
            problem = json.loads(answer.body)
            assert ("error" if path == OIP else "code") in problem


def test_a_key_with_another_scope_is_refused(server: ServerProcess, keys: dict[str, str]) -> None:
    with connect(server.url) as sock:
        answer = ask(sock, request(REST, keys["read"]))
        assert answer.status == 403
        assert json.loads(answer.body)["missing_scope"] == ["infer"]
        assert ask(sock, request(REST, keys["infer"], "X-Request-Id: mine")).status == 200


def test_keys_on_one_connection_are_kept_apart(server: ServerProcess, keys: dict[str, str]) -> None:
    asked = [("infer", 200), ("read", 403), ("infer", 200), (None, 401), ("admin", 200)]
    texts = [request(REST, None if name is None else keys[name]) for name, _ in asked]
    with connect(server.url) as sock:
        for _ in range(2):
            sock.sendall(b"".join(texts))
            stream = sock.makefile("rb", buffering=0)
            for _, expected in asked:
                assert next_status(stream) == expected


def next_status(stream: object) -> int:
    status = int(stream.readline().split()[1])
    size = 0
    while (line := stream.readline().strip().lower()) != b"":
        if line.startswith(b"content-length:"):
            size = int(line.split(b":")[1])
    while size:
        size -= len(stream.read(size))
    return status


@pytest.mark.parametrize("path", [REST, OIP])
def test_a_revoked_key_is_refused(server: ServerProcess, data_dir: Path, path: str) -> None:
    name = "brief" + path[1:3]
    key = add_key(data_dir, name, "infer")
    text = request(path, key)
    with connect(server.url) as sock, connect(server.url) as waiting:
        wait_until(lambda: ask(sock, text).status == 200, "the key is accepted")
        assert is_fast(ask(sock, text))
        waiting.sendall(text[:-1])  # its head was accepted before the key is revoked
        wait_until(lambda: ask(sock, text).status == 200, "the key is still accepted")
        revoke_key(data_dir, name)
        wait_until(lambda: ask(sock, text).status == 401, "the revoked key is refused")
        waiting.sendall(text[-1:])
        assert read_answer(waiting).status == 401


def test_a_key_expires(server: ServerProcess, data_dir: Path) -> None:
    text = request(REST, add_key(data_dir, "short", "infer", expires="2s"))
    with connect(server.url) as sock:
        wait_until(lambda: ask(sock, text).status == 200, "the key is accepted")
        wait_until(lambda: ask(sock, text).status == 401, "the expired key is refused")


@pytest.mark.parametrize("path", [REST, OIP])
def test_a_keys_rate_is_limited(server: ServerProcess, data_dir: Path, path: str) -> None:
    key = add_key(data_dir, "slow" + path[1:3], "infer", rate=3)
    text = request(path, key)
    with connect(server.url) as sock:
        wait_until(lambda: ask(sock, text).status != 401, "the key is accepted")
        answers = [ask(sock, text) for _ in range(12)]
        statuses = [one.status for one in answers]
        assert set(statuses) <= {200, 429}
        assert statuses[-1] == 429
        assert int(answers[-1].headers["retry-after"]) == 1
        assert ("error" if path == OIP else "code") in json.loads(answers[-1].body)
        wait_until(lambda: ask(sock, text).status == 200, "the key may ask again")


def test_a_keys_concurrent_requests_are_limited(server: ServerProcess, data_dir: Path) -> None:
    key = add_key(data_dir, "single", "infer", concurrency=1)
    text = request(REST, key)
    with connect(server.url) as sock:
        wait_until(lambda: ask(sock, text).status == 200, "the key is accepted")
        for _ in range(50):  # one at a time
            assert ask(sock, text).status == 200
        with Client(server.url, key=key) as client:
            client.predict("net", data=np.zeros((1, FEATURES), "f"))
        sock.sendall(text)
    with connect(server.url) as sock:  # abandoned requests no longer count
        wait_until(lambda: ask(sock, text).status == 200, "the abandoned request has ended")


def test_a_long_answer_is_under_way_until_it_was_sent() -> None:
    allowance, released, answers = RateLimiter(rate=None, concurrency=1), [], []

    def begin(body: bytes, request_id: str, respond: Respond) -> None:
        content = Content([b"1"])
        respond(200, b"", LongBody(memoryview(b""), content, lambda: released.append(True)))

    limited = _Limited(allowance, lambda status, lines, body: answers.append(body))
    limited.begin(begin, b"", "id")
    with pytest.raises(TooManyRequests):
        allowance.take()
    answers[0].release()
    assert released == [True]
    allowance.take()
