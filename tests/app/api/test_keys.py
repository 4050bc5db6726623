"""API keys over HTTP: what each may do, from the first key to its expiry."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from app.api.security.scopes import SCOPES
from app.client import Client, ClientError
from app.client.local_server import ServerProcess, running_server
from app.domain.api_key import KeyScope
from served.keys import add_key, revoke_key
from served.network import BIND, NETWORK
from served.processes import ENVIRONMENT, wait_until
from served.sockets import connect, exchange, head, read_answer

SECRET = re.compile(r"msk_[0-9a-f]{12}_[A-Za-z0-9_-]{10}")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def keys(data_dir: Path) -> dict[str, str]:
    """A key of each scope."""
    return {scope: add_key(data_dir, scope, scope) for scope in KeyScope}


@pytest.fixture(scope="module")
def server(data_dir: Path, keys: dict[str, str]) -> Iterator[ServerProcess]:
    settings = ENVIRONMENT | {"MODSERVE_LOG_LEVEL": "debug"}
    with running_server(data_dir, environment=settings) as server:
        with Client(server.url, key=keys["admin"]) as client:
            client.create_module("net", json.dumps(NETWORK))
            client.request("POST", "/v1/modules/net/bind", json=BIND)
            client.init_params("net", seed=1)
        yield server
    assert SECRET.search(server.log.read_text()) is None


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def status(server: ServerProcess, verb: str, path: str, key: str, **options: object) -> int:
    return httpx.request(verb, server.url + path, headers=bearer(key), **options).status_code


def refused(answer: httpx.Response, code: int) -> None:
    assert answer.status_code == code, answer.text
    assert SECRET.search(answer.text) is None
    assert answer.headers["x-request-id"]
    if code == 401:
        assert answer.headers["www-authenticate"] == 'Bearer realm="modserve"'
        assert answer.json()["code"] == "unauthorized"


def test_each_key_may_do_what_its_scopes_allow(server: ServerProcess, keys: dict[str, str]) -> None:
    body = {"inputs": {"data": [[1, 2, 3, 4, 5]]}}
    asked = {
        "metrics": ("GET", "/metrics", None),
        "read": ("GET", "/v1/modules", None),
        "infer": ("POST", "/v1/modules/net/predict", body),
        "train": ("POST", "/v1/modules/net/params/init", {"initializer": "xavier"}),
        "admin": ("PATCH", "/v1/modules/net/serving", {"max_delay_us": 0}),
    }
    may = {
        "metrics": {"metrics"},
        "read": {"read", "metrics"},
        "infer": {"infer"},
        "train": {"train", "read", "metrics"},
        "admin": {"metrics", "read", "infer", "train", "admin"},
    }
    for scope, key in keys.items():
        for wanted, (verb, path, content) in asked.items():
            answer = httpx.request(verb, server.url + path, headers=bearer(key), json=content)
            if wanted in may[scope]:
                assert answer.status_code == 200, (scope, wanted, answer.text)
            else:
                refused(answer, 403)
                assert answer.json()["code"] == "forbidden"
                assert answer.json()["missing_scope"] == [wanted]
                assert wanted in answer.json()["detail"]


def test_only_a_few_paths_need_no_key(server: ServerProcess) -> None:
    for path in ("/livez", "/readyz", "/v2/health/live", "/v2/health/ready"):
        assert httpx.get(server.url + path).status_code == 200
        assert httpx.head(server.url + path).status_code == 200
    for path in ("/", "/docs", "/session"):
        assert httpx.get(server.url + path).status_code != 401
    for verb, path in (
        *(("GET", path) for path in ("/v1/modules", "/metrics", "/v1/events")),
        *(("GET", path) for path in ("/openapi.json", "/redoc", "/v1/none", "/x")),
        *((verb, "/v1/modules/net") for verb in ("HEAD", "OPTIONS", "DELETE", "TRACE", "LINK")),
        ("POST", "/v1/modules/net/predict"),
    ):
        answer = httpx.request(verb, server.url + path)
        assert answer.status_code == 401, (verb, path)
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_the_document_is_for_readers(server: ServerProcess, keys: dict[str, str]) -> None:
    assert status(server, "GET", "/openapi.json", keys["read"]) == 200
    for scope in ("infer", "metrics"):
        for verb in ("GET", "HEAD"):
            assert status(server, verb, "/openapi.json", keys[scope]) == 403


def test_a_key_for_metrics_sees_nothing_else(server: ServerProcess, keys: dict[str, str]) -> None:
    for (verb, path), needed in SCOPES.items():
        if needed and (verb, path) != ("GET", "/metrics"):
            assert status(server, verb, path, keys["metrics"]) == 403, (verb, path)


def test_a_key_can_be_sent_in_several_ways(server: ServerProcess, keys: dict[str, str]) -> None:
    key = keys["read"]
    for fields in (
        {"Authorization": f"Bearer {key}"},
        {"authorization": f"bearer {key}"},
        {"Authorization": f"BEARER  {key}"},
        {"X-API-Key": key},
        {"X-API-Key": key, "Authorization": "Basic dTpw"},
    ):
        answer = httpx.get(f"{server.url}/v1/modules", headers=fields)
        assert answer.status_code == 200, fields


def test_malformed_keys_are_refused(server: ServerProcess, keys: dict[str, str]) -> None:
    key, other = keys["read"], keys["admin"]
    start = "_".join(key.split("_", 2)[:2])  # the secret may contain a "_" itself
    for fields in (
        [("Authorization", f"Basic {key}")],
        [("Authorization", key)],
        [("Authorization", "Bearer")],
        [("Authorization", f"Bearer {key} {key}")],
        [("Authorization", f"Bearer {key},Bearer {other}")],
        [("Authorization", f"Bearer {key}"), ("Authorization", f"Bearer {key}")],
        [("Authorization", f"Bearer {key}"), ("Authorization", f"Bearer {other}")],
        [("Authorization", "Basic dTpw"), ("Authorization", f"Bearer {key}")],
        [("Authorization", f"Bearer {key}"), ("X-API-Key", other)],
        [("Authorization", f"Bearer {key}"), ("X-API-Key", key)],
        [("X-API-Key", key), ("X-API-Key", key)],
        [("X-API-Key", "")],
        [("X-API-Key", f"{key}A")],
        [("X-API-Key", key[:-1])],
        [("X-API-Key", key.upper())],
        [("X-API-Key", f"{start}_{other.split('_', 2)[2]}")],
        [("X-API-Key", "é" * 60)],
        [("Cookie", f"api_key={key}")],
    ):
        raw = [(name.encode(), value.encode("latin-1")) for name, value in fields]
        refused(httpx.get(f"{server.url}/v1/modules", headers=raw), 401)


def test_a_key_in_the_url_is_neither_accepted_nor_logged(
    server: ServerProcess, keys: dict[str, str]
) -> None:
    for query in ("api_key", "key", "access_token", "X-API-Key", "Authorization"):
        refused(httpx.get(f"{server.url}/v1/modules", params={query: keys["admin"]}), 401)
    headers = bearer(keys["admin"])
    for path in (
        f"/v1/modules?key={keys['admin']}",
        f"/v1/modules/{keys['admin']}",
        f"/{keys['admin']}",
        f"/v1/jobs/{keys['admin']}",
        f"/v1/modules/net/params/{keys['admin']}",
    ):
        answer = httpx.get(server.url + path, headers=headers)
        assert 400 <= answer.status_code < 500
        assert SECRET.search(answer.text) is None, answer.text


@pytest.mark.parametrize(
    "target",
    [
        "//v1/modules",
        "/v1//modules",
        "/v1/modules/",
        "/V1/modules",
        "/livez/../v1/modules",
        "/livez/..;/v1/modules",
        "/livez%2f..%2fv1%2fmodules",
        "/livez?/v1/modules&/../v1/modules=",
        "/./v1/modules",
        "/v2/health/live/../../../v1/modules",
        "/%2e%2e/v1/modules",
        "/%76%31/modules",
        "/v1/mod%75les",
        "/v1/modules%00",
        "/v1/modules;jsessionid=1",
        "/readyz/",
        "/livez%20",
        "/livez%3f",
        "\\v1\\modules",
        "http://127.0.0.1/v1/modules",
        "/v1/modules#/livez",
    ],
)
def test_no_spelling_of_a_path_bypasses_its_scope(
    server: ServerProcess, keys: dict[str, str], target: str
) -> None:
    without = exchange(server.url, head(f"GET {target}"))
    assert without.status in (400, 401, 422) or b"alive" in without.body
    infer = exchange(server.url, head(f"GET {target}", f"X-API-Key: {keys['infer']}"))
    assert infer.status in (400, 403, 404, 405, 422) or b"alive" in infer.body
    assert b'"items"' not in without.body + infer.body


def test_keys_on_one_connection_are_kept_apart(server: ServerProcess, keys: dict[str, str]) -> None:
    asked = [("read", 200), ("infer", 403), ("none", 401), ("admin", 200), ("infer", 403)]
    text = b"".join(
        head("GET /v1/modules", f"X-API-Key: {keys.get(name, 'none')}") for name, _ in asked
    )
    with connect(server.url) as sock, sock.makefile("rb") as stream:
        sock.sendall(text)
        for _, expected in asked:
            assert int(stream.readline().split()[1]) == expected
            size = 0
            while (line := stream.readline().strip().lower()) != b"":
                if line.startswith(b"content-length:"):
                    size = int(line.split(b":")[1])
            stream.read(size)


def test_trailers_and_fields_after_the_body_are_not_keys(
    server: ServerProcess, keys: dict[str, str]
) -> None:
    text = head("POST /v1/modules/net/predict", "Transfer-Encoding: chunked", "Trailer: X-API-Key")
    text += b"2\r\n{}\r\n0\r\nX-API-Key: " + keys["infer"].encode() + b"\r\n\r\n"
    assert exchange(server.url, text).status == 401


def test_the_body_of_an_unauthorized_request_is_not_read(
    server: ServerProcess, keys: dict[str, str]
) -> None:
    with connect(server.url) as sock:
        sock.sendall(head("PUT /v1/datasets/big?kind=npz", "Content-Length: 1000000000"))
        assert read_answer(sock).status == 401
    with connect(server.url) as sock:
        key = f"X-API-Key: {keys['read']}"
        sock.sendall(head("PUT /v1/datasets/big?kind=npz", key, "Content-Length: 1000000000"))
        assert read_answer(sock).status == 403


def test_the_audit_log_names_the_key_of_changes_and_refusals(
    server: ServerProcess, keys: dict[str, str]
) -> None:
    ids = {name: key.split("_")[1] for name, key in keys.items()}
    headers = bearer(keys["train"]) | {"X-Request-Id": "audited-1"}
    httpx.post(f"{server.url}/v1/modules/none/fit", json={}, headers=headers)
    for name, verb, path, key in (
        ("audited-2", "POST", "/v1/modules/none/fit", keys["read"]),
        ("audited-3", "GET", "/v1/jobs", "nonsense"),
    ):
        # Beyond a rate, refusals are only counted.
        headers = bearer(key) | {"X-Request-Id": name}
        ask = partial(httpx.request, verb, server.url + path, headers=headers)
        wait_until(partial(is_noted, server, name, ask), "a refusal is noted")
    lines = audit_lines(server)
    for number, words in (
        (1, ("change", ids["train"], "name=train", "POST", "/v1/modules/none/fit", "status=422")),
        (2, ("refused", ids["read"], "status=403")),
        (3, ("refused", "key=none", "status=401", "GET", "/v1/jobs")),
    ):
        line = next(line for line in lines if f"audited-{number}" in line)
        assert all(word in line for word in words), line


def is_noted(server: ServerProcess, name: str, ask: Callable[[], object]) -> bool:
    ask()
    return any(name in line for line in audit_lines(server))


def audit_lines(server: ServerProcess) -> list[str]:
    return [line for line in server.log.read_text().splitlines() if "modserve.audit" in line]


def test_keys_can_be_added_and_removed_while_the_server_runs(
    server: ServerProcess, data_dir: Path
) -> None:
    key = add_key(data_dir, "brief", "read")
    wait_until(lambda: status(server, "GET", "/v1/modules", key) == 200, "the key is accepted")
    with httpx.Client(base_url=server.url, headers=bearer(key)) as client:
        assert client.get("/v1/modules").status_code == 200
        revoke_key(data_dir, "brief")
        wait_until(lambda: client.get("/v1/modules").status_code == 401, "a revoked key is refused")


def test_a_key_expires(server: ServerProcess, data_dir: Path) -> None:
    key = add_key(data_dir, "short", "read", expires="2s")
    wait_until(lambda: status(server, "GET", "/v1/modules", key) == 200, "the key is accepted")
    wait_until(
        lambda: status(server, "GET", "/v1/modules", key) == 401, "an expired key is refused"
    )


def test_an_event_stream_ends_with_its_key(server: ServerProcess, data_dir: Path) -> None:
    key = add_key(data_dir, "follower", "read")
    wait_until(lambda: status(server, "GET", "/v1/modules", key) == 200, "the key is accepted")
    with httpx.stream("GET", f"{server.url}/v1/events", headers=bearer(key), timeout=60) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        revoke_key(data_dir, "follower")
        wait_until(
            lambda: status(server, "GET", "/v1/modules", key) == 401, "a revoked key is refused"
        )
        list(lines)
    assert "Traceback" not in server.log.read_text()


def test_an_upload_ends_with_its_key(server: ServerProcess, data_dir: Path) -> None:
    key = add_key(data_dir, "uploader", "train")
    wait_until(lambda: status(server, "GET", "/v1/modules", key) == 200, "the key is accepted")
    with connect(server.url) as sock:
        sock.sendall(
            head("PUT /v1/datasets/half?kind=npz", f"X-API-Key: {key}", "Content-Length: 1000")
            + b"PK"
        )
        revoke_key(data_dir, "uploader")
        wait_until(
            lambda: status(server, "GET", "/v1/modules", key) == 401, "a revoked key is refused"
        )
        sock.sendall(b"PK")
        assert read_answer(sock).status == 401


LATE = {
    "upload": ("PUT /v1/datasets/late?kind=text", b"some text"),
    "delete": ("DELETE /v1/modules/kept", b"{}"),
    "init": ("POST /v1/modules/kept/params/init", b"{}"),
    "create": ("POST /v1/modules", json.dumps({"name": "late", "symbol": NETWORK}).encode()),
    "without a body": ("POST /v1/modules/kept/warm_up", b"{}"),
    "protocol": ("POST /v2/repository/models/kept/unload", b"{}"),
    "predict": ("POST /v1/modules/kept/predict", b"{}"),
}


@pytest.mark.parametrize(("line", "body"), LATE.values(), ids=LATE)
def test_a_key_that_ends_before_its_request_changes_nothing(
    server: ServerProcess, data_dir: Path, keys: dict[str, str], line: str, body: bytes
) -> None:
    with Client(server.url, key=keys["admin"]) as client:
        client.create_module("kept", json.dumps(NETWORK))
        before = client.module("kept")
        key = add_key(data_dir, "late", "admin")
        wait_until(lambda: status(server, "GET", "/v1/modules", key) == 200, "the key is accepted")
        with connect(server.url) as sock:
            fields = (f"X-API-Key: {key}", f"Content-Length: {len(body)}")
            sock.sendall(head(line, *fields) + body[:-1])
            revoke_key(data_dir, "late")
            wait_until(
                lambda: status(server, "GET", "/v1/modules", key) == 401, "a revoked key is refused"
            )
            sock.sendall(body[-1:])
            assert read_answer(sock).status == 401
        assert client.module("kept") == before
        client.delete_module("kept")
        assert "late" not in [one["name"] for one in client.modules()]
        assert "late" not in [one["name"] for one in client.datasets()]


def test_a_keys_rate_is_limited(server: ServerProcess, data_dir: Path) -> None:
    key = add_key(data_dir, "slow", "read", rate=0.1)
    wait_until(lambda: status(server, "GET", "/v1/modules", key) != 401, "the key is accepted")
    answer = httpx.get(f"{server.url}/v1/modules", headers=bearer(key))
    refused(answer, 429)
    assert answer.json()["code"] == "too_many_requests"
    assert 1 <= int(answer.headers["retry-after"]) <= 10


def test_a_keys_concurrent_requests_are_limited(server: ServerProcess, data_dir: Path) -> None:
    key = add_key(data_dir, "single", "read", concurrency=1)
    wait_until(lambda: status(server, "GET", "/v1/modules", key) == 200, "the key is accepted")
    with httpx.stream("GET", f"{server.url}/v1/events", headers=bearer(key)) as answer:
        assert answer.status_code == 200
        refused(httpx.get(f"{server.url}/v1/modules", headers=bearer(key)), 429)
    wait_until(lambda: status(server, "GET", "/v1/modules", key) == 200, "the stream has ended")


def test_the_client_sends_its_key(
    server: ServerProcess, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(server.url, key=keys["read"]) as client:
        assert [one["name"] for one in client.modules()] == ["net"]
    with Client(server.url) as client, pytest.raises(ClientError, match="401 unauthorized"):
        client.modules()
    monkeypatch.setenv("MODSERVE_API_KEY", keys["read"])
    with Client(server.url) as client:
        assert [one["name"] for one in client.modules()] == ["net"]


def test_the_inference_protocol_refuses_in_its_own_format(
    server: ServerProcess, keys: dict[str, str]
) -> None:
    url = f"{server.url}/v2"
    for path in ("/health/live", "/health/ready"):
        assert httpx.get(url + path).status_code == 200
    for verb, path in (
        *(("GET", path) for path in ("", "/", "/models/net", "/models/net/ready", "/none")),
        *(("GET", path) for path in ("/health/live/", "/health/", "/health/live/../../models/net")),
        *(("POST", path) for path in ("/models/net/infer", "/repository/models/net/unload")),
    ):
        answer = httpx.request(verb, url + path)
        assert answer.status_code == 401, path
        assert list(answer.json()) == ["error"]
        assert answer.headers["www-authenticate"].startswith("Bearer")
    for verb, path, key, expected in (
        ("GET", "/models/net", "infer", 200),
        ("GET", "/models/net/ready", "infer", 200),
        ("POST", "/repository/index", "infer", 200),
        ("POST", "/repository/index", "read", 200),
        ("POST", "/models/net/infer", "read", 403),
        ("POST", "/models/net/versions/live/infer", "read", 403),
        ("POST", "/repository/models/net/unload", "infer", 403),
        ("POST", "/repository/models/net/unload", "train", 403),
    ):
        answer = httpx.request(verb, url + path, headers=bearer(keys[key]))
        assert answer.status_code == expected, (path, answer.text)
        if expected == 403:
            assert list(answer.json()) == ["error"]
            assert "needs a key of scope" in answer.json()["error"]
