"""What holds for every request holds on the fast path too: one list, asked of both."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served.keys import add_key
from served.perceptron import perceptron
from served.processes import ENVIRONMENT, wait_until
from served.sockets import exchange, head

FEATURES, ROOT = 8, "/models"
ALLOWED, FOREIGN = "https://lab.example", "https://evil.example"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SETTINGS = {
    "MODSERVE_ALLOWED_ORIGINS": json.dumps([ALLOWED]),
    "MODSERVE_ROOT_PATH": ROOT,
    "MODSERVE_LOG_LEVEL": "debug",
    "MODSERVE_LOG_FORMAT": "json",
}
V1, V2 = "/v1/modules/net/predict", "/v2/models/net/infer"
TENSOR = {"name": "data", "shape": [1, FEATURES], "datatype": "FP32", "data": [0] * FEATURES}
BODIES = {V1: {"data": [[0.5] * FEATURES]}, V2: {"inputs": [TENSOR]}}
BROKEN = {V1: {"data": [["x"]]}, V2: {"inputs": [TENSOR | {"shape": [3]}]}}
OF_ONE_ANSWER = {"date", "x-request-id", "server-timing", "traceparent", "content-length"}


@dataclass(frozen=True)
class Expected:
    """What a request with these fields gets.

    Attributes:
        fields: of the request, in addition to a key's.
        status: of the answer; that of /v2 may differ.
        has: fields of the answer, by patterns; an empty one says that the field is absent.
        key: whose key is sent.
        body: by path.
        query: of the address.
    """

    fields: dict[str, str] = field(default_factory=dict)
    status: int = 200
    status_v2: int = 0
    has: dict[str, str] = field(default_factory=dict)
    key: str = "infer"
    body: dict[str, Any] = field(default_factory=lambda: BODIES)
    query: str = ""


READABLE = {"access-control-allow-origin": re.escape(ALLOWED), "vary": "(.*, )?Origin"}
EXPOSED = r"(?=.*Content-Disposition)(?=.*Content-Range)(?=.*Inference-Header-Content-Length).*"
EXPECTED = {
    "plain": Expected(has={"x-request-id": "[0-9a-f]{32}", "server-timing": r"app;dur=[0-9.]+"}),
    "invalid": Expected(status=422, status_v2=400, body=BROKEN),
    "own id": Expected({"X-Request-Id": "mine-1"}, has={"x-request-id": "mine-1"}),
    "unsafe id": Expected({"X-Request-Id": "a b"}, has={"x-request-id": "[0-9a-f]{32}"}),
    "trace": Expected(
        {"traceparent": TRACE}, has={"traceparent": f"{TRACE[:36]}[0-9a-f]{{16}}-01"}
    ),
    "no trace": Expected({"traceparent": "x"}, has={"traceparent": ""}),
    "allowed origin": Expected(
        {"Origin": ALLOWED}, has=READABLE | {"access-control-expose-headers": EXPOSED}
    ),
    "error to an allowed origin": Expected(
        {"Origin": ALLOWED}, 422, 400, has=READABLE, body=BROKEN
    ),
    "no origin": Expected(has={"access-control-allow-origin": "", "vary": "(.*, )?Origin"}),
    "foreign origin": Expected(
        {"Origin": FOREIGN}, status=403, has={"access-control-allow-origin": ""}
    ),
    "refusal to an allowed origin": Expected({"Origin": ALLOWED}, 401, has=READABLE, key="none"),
    "foreign host": Expected({"Host": "evil.example"}, status=403),
    "no key": Expected(status=401, key="none", has={"www-authenticate": "Bearer .*"}),
    "unknown key": Expected(status=401, key="unknown"),
    "two keys": Expected({"X-API-Key": "another"}, status=401),
    "other scope": Expected(status=403, key="read"),
    "coded body": Expected({"Content-Encoding": "br"}, status=501),
    "part": Expected({"Content-Range": "bytes 0-1/2"}, status=400),
    "upgrade": Expected({"Connection": "Upgrade", "Upgrade": "h2c"}),
    "unknown query": Expected(status=422, status_v2=200, query="?colour=red"),
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    data_dir = tmp_path_factory.mktemp("paths")
    made = {name: add_key(data_dir, name, name) for name in ("read", "infer", "admin")}
    made["slow"] = add_key(data_dir, "slow", "infer", rate=0.001)
    return made | {"none": "", "unknown": "msk_000000000000_x", "folder": str(data_dir)}


@pytest.fixture(scope="module")
def server(keys: dict[str, str]) -> Iterator[ServerProcess]:
    with running_server(Path(keys["folder"]), environment=ENVIRONMENT | SETTINGS) as server:
        with Client(server.url, key=keys["admin"]) as client:
            client.create_module("net", perceptron().tojson())
            shapes = [{"name": "data", "shape": [4, FEATURES]}]
            client.bind("net", shapes, for_training=False)
            client.init_params("net", seed=3)
        yield server


def ask(
    server: ServerProcess, path: str, key: str, expected: Expected, *, is_fast: bool
) -> httpx.Response:
    """Ask on the fast path, or, with a chunked body, through the router."""
    content = json.dumps(expected.body[path]).encode()
    fields = {"X-API-Key": key} if key else {}
    fields |= {"Content-Type": "application/json"} | expected.fields
    if "X-API-Key" in expected.fields:
        fields |= {"Authorization": f"Bearer {key}"}
    return httpx.post(
        f"{server.url}{ROOT}{path}{expected.query}",
        headers=fields,
        content=content if is_fast else iter([content]),
    )


def took_the_fast_path(answer: httpx.Response) -> bool:
    return answer.headers["x-request-id"][16:19] == "000"


@pytest.mark.parametrize("path", [V1, V2], ids=["v1", "v2"])
@pytest.mark.parametrize("expected", EXPECTED.values(), ids=EXPECTED)
def test_both_paths_answer_alike(
    server: ServerProcess, keys: dict[str, str], path: str, expected: Expected
) -> None:
    answers = [
        ask(server, path, keys[expected.key], expected, is_fast=is_fast)
        for is_fast in (True, False)
    ]
    for answer in answers:
        status = (path == V2 and expected.status_v2) or expected.status
        assert answer.status_code == status, answer.text
        for name, pattern in expected.has.items():
            found = answer.headers.get(name, "")
            assert re.fullmatch(pattern, found), f"{name}: {found}"
        if status >= 400 and path == V1:
            assert answer.json()["type"] == f"{ROOT}/v1/errors/{answer.json()['code']}"
            assert answer.json()["instance"] == ROOT + V1
    fast, routed = (
        {name: value for name, value in one.headers.items() if name not in OF_ONE_ANSWER}
        for one in answers
    )
    assert fast == routed
    without_id = [re.sub(r'"request_id":"[^"]*"', "", one.text) for one in answers]
    assert without_id[0] == without_id[1]


def test_the_fast_path_is_taken(server: ServerProcess, keys: dict[str, str]) -> None:
    for path in (V1, V2):
        for name in ("plain", "allowed origin", "error to an allowed origin", "upgrade"):
            expected = EXPECTED[name]
            ask(server, path, keys["infer"], expected, is_fast=True)
            assert took_the_fast_path(ask(server, path, keys["infer"], expected, is_fast=True))
        assert not took_the_fast_path(
            ask(server, path, keys["infer"], EXPECTED["plain"], is_fast=False)
        )


@pytest.mark.parametrize("is_fast", [True, False], ids=["fast", "routed"])
def test_refusals_are_noted_with_their_client(
    server: ServerProcess, keys: dict[str, str], is_fast: bool
) -> None:
    of_client = f"192.0.2.{int(is_fast) + 1}"
    expected = Expected({"X-Forwarded-For": of_client})
    ask(server, V1, keys["slow"], expected, is_fast=is_fast)

    def noted() -> list[Any]:
        lines = [json.loads(line) for line in server.log.read_text().splitlines()]
        return [one for one in lines if one.get("client") == of_client]

    def is_noted() -> bool:  # beyond 20 refusals a second only their number is
        assert ask(server, V1, keys["slow"], expected, is_fast=is_fast).status_code == 429
        return len(noted()) >= 2

    wait_until(is_noted, "the refusals are in the log")
    for line in noted():
        assert (line["message"], line["status"], line["path"]) == ("refused", 429, V1)
        assert line["key"] == keys["slow"].split("_")[1]


@pytest.mark.parametrize("is_fast", [True, False], ids=["fast", "routed"])
@pytest.mark.parametrize(
    ("path", "route"), [(V1, "/v1/modules/{module}/predict"), (V2, "/v2/models/{model}/infer")]
)
def test_requests_are_counted_and_logged(
    server: ServerProcess, keys: dict[str, str], path: str, route: str, is_fast: bool
) -> None:
    def count() -> float:
        text = httpx.get(f"{server.url}/metrics", headers={"X-API-Key": keys["admin"]}).text
        labels = re.escape(f'{{method="POST",route="{route}",status="200"}}')
        found = re.search(f"modserve_http_requests_total{labels} ([0-9.]+)", text)
        return float(found[1]) if found else 0.0

    before, own_id = count(), f"logged-{is_fast}-{path[1:3]}"
    ask(server, path, keys["infer"], Expected({"X-Request-Id": own_id}), is_fast=is_fast)
    assert count() == before + 1
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    (line,) = [one for one in lines if one.get("request_id") == own_id]
    assert (line["message"], line["path"], line["status"]) == ("request", path, 200)


def test_refusals_before_the_application_are_readable_too(server: ServerProcess) -> None:
    fields = (f"Origin: {ALLOWED}", f"X: {'a' * 70_000}")
    refused = exchange(server.url, head(f"POST {ROOT}{V1}", *fields))
    assert refused.status == 431
    assert refused.headers["access-control-allow-origin"] == ALLOWED
    assert json.loads(refused.body)["type"] == f"{ROOT}/v1/errors/headers_too_large"
    coded = head(f"POST {ROOT}{V1}", f"Origin: {ALLOWED}", "Transfer-Encoding: gzip, chunked")
    assert exchange(server.url, coded).headers["access-control-allow-origin"] == ALLOWED
