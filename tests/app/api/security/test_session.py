"""Logging in with a key: the cookie that browsers get, and who can use it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path

import httpx
import pytest

from app.client.local_server import ServerProcess, running_server
from app.settings import Settings
from served.keys import add_key, revoke_key
from served.network import NETWORK
from served.processes import ENVIRONMENT, wait_until
from served.threaded import served

ALLOWED = "https://lab.example"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("session")


@pytest.fixture(scope="module")
def keys(data_dir: Path) -> dict[str, str]:
    return {scope: add_key(data_dir, scope, scope) for scope in ("read", "train", "infer")}


@pytest.fixture(scope="module")
def server(data_dir: Path, keys: dict[str, str]) -> Iterator[ServerProcess]:
    settings = ENVIRONMENT | {"MODSERVE_ALLOWED_ORIGINS": json.dumps([ALLOWED])}
    with running_server(data_dir, environment=settings) as server:
        yield server


@pytest.fixture
def browser(server: ServerProcess) -> Iterator[httpx.Client]:
    """A client that keeps cookies and sends the headers of our own pages."""
    headers = {"Sec-Fetch-Site": "same-origin", "Origin": server.url}
    with httpx.Client(base_url=server.url, headers=headers) as client:
        yield client


def log_in(client: httpx.Client, key: str) -> httpx.Response:
    answer = client.post("/session", json={"key": key})
    assert answer.status_code == 200, answer.text
    return answer


def test_a_key_is_exchanged_for_a_cookie(browser: httpx.Client, keys: dict[str, str]) -> None:
    assert browser.get("/v1/jobs").status_code == 401
    assert browser.get("/session").json() == {"key_needed": True, "name": None, "scopes": []}
    answer = log_in(browser, f" {keys['train']}\n")
    expected = {"key_needed": True, "name": "train", "scopes": ["metrics", "read", "train"]}
    assert answer.json() == expected == browser.get("/session").json()
    (cookie,) = SimpleCookie(answer.headers["set-cookie"]).values()
    assert cookie["httponly"]
    assert cookie["samesite"] == "Strict"
    assert not cookie["path"]  # browsers take the folder of `session`, with a proxy's prefix
    assert not cookie["max-age"]  # browsers delete it when they are closed
    assert keys["train"].split("_", 2)[2] not in answer.headers["set-cookie"]
    assert browser.get("/v1/jobs").status_code == 200
    assert browser.get("/openapi.json").status_code == 200
    created = browser.post("/v1/modules", json={"name": "net", "symbol": NETWORK})
    assert created.status_code == 201
    assert browser.delete("/v1/modules/net").status_code == 204


def test_a_session_has_the_scopes_of_its_key(browser: httpx.Client, keys: dict[str, str]) -> None:
    log_in(browser, keys["read"])
    answer = browser.post("/v1/modules", json={"name": "net", "symbol": NETWORK})
    assert (answer.status_code, answer.json()["missing_scope"]) == (403, ["train"])


def test_invalid_keys_start_no_session(browser: httpx.Client, keys: dict[str, str]) -> None:
    for body, status in (
        ({"key": "nonsense"}, 401),
        ({"key": keys["read"][:-1]}, 401),
        ({"key": ""}, 401),
        ({"key": 5}, 422),
        ({}, 422),
        ({"key": keys["read"], "more": 1}, 422),
    ):
        answer = browser.post("/session", json=body)
        assert answer.status_code == status, body
        assert "set-cookie" not in answer.headers
        assert keys["read"][20:] not in answer.text
    assert browser.get("/v1/jobs").status_code == 401


def test_logging_out_ends_the_session_everywhere(
    browser: httpx.Client, keys: dict[str, str]
) -> None:
    log_in(browser, keys["read"])
    with httpx.Client(base_url=browser.base_url, cookies=dict(browser.cookies)) as thief:
        assert thief.get("/v1/jobs").status_code == 200
        assert browser.delete("/session").status_code == 204
        assert dict(browser.cookies) == {}
        assert thief.get("/v1/jobs").status_code == 401
    assert browser.delete("/session").status_code == 204


def is_logged_in(client: httpx.Client, key: str) -> bool:
    return client.post("/session", json={"key": key}).status_code == 200


def test_a_session_ends_with_its_key(browser: httpx.Client, data_dir: Path) -> None:
    key = add_key(data_dir, "brief", "read")
    wait_until(lambda: is_logged_in(browser, key), "the key is accepted")
    assert browser.get("/v1/jobs").status_code == 200
    revoke_key(data_dir, "brief")
    wait_until(lambda: browser.get("/v1/jobs").status_code == 401, "a revoked key is refused")


def test_only_pages_of_this_origin_can_use_the_cookie(
    browser: httpx.Client, server: ServerProcess, keys: dict[str, str]
) -> None:
    log_in(browser, keys["train"])
    cookies = dict(browser.cookies)

    def status(verb: str, **fields: str) -> int:
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        with httpx.Client(base_url=server.url, cookies=cookies, headers=headers) as other:
            return other.request(verb, "/v1/jobs" if verb == "GET" else "/v1/jobs/1").status_code

    # There is no such job: 404 shows that the cookie was accepted.
    for fields, reading, changing in (
        ({"Sec_Fetch_Site": "same-origin"}, 200, 404),
        ({"Origin": server.url}, 200, 404),  # without TLS browsers send no Sec-Fetch-Site
        ({"Sec_Fetch_Site": "none"}, 200, 401),  # an address that was typed in
        ({}, 200, 401),
        ({"Origin": ALLOWED}, 401, 401),  # with its own key it may ask
        ({"Origin": ALLOWED, "Sec_Fetch_Site": "cross-site"}, 401, 401),
        ({"Origin": "http://127.0.0.1:1", "Sec_Fetch_Site": "same-site"}, 403, 403),
        ({"Origin": "null"}, 403, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403, 403),
    ):
        assert status("GET", **fields) == reading, fields
        assert status("DELETE", **fields) == changing, fields


def test_another_site_cannot_log_anyone_in(server: ServerProcess, keys: dict[str, str]) -> None:
    headers = {"Origin": "https://evil.example", "Content-Type": "text/plain"}
    body = json.dumps({"key": keys["read"]})
    answer = httpx.post(f"{server.url}/session", content=body, headers=headers)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_a_key_in_the_request_takes_precedence_over_the_cookie(
    browser: httpx.Client, keys: dict[str, str]
) -> None:
    log_in(browser, keys["train"])
    for key, status in ((keys["infer"], 403), ("nonsense", 401), (keys["read"], 200)):
        assert browser.get("/v1/jobs", headers={"X-API-Key": key}).status_code == status
    assert browser.get("/session", headers={"X-API-Key": keys["infer"]}).json()["name"] == "infer"


def test_cookies_of_servers_on_one_host_do_not_collide(
    browser: httpx.Client, keys: dict[str, str]
) -> None:
    log_in(browser, keys["read"])
    ((name, value),) = browser.cookies.items()
    assert name.endswith(f"_{httpx.URL(str(browser.base_url)).port}")
    for wrong in ({"modserve_session": value}, {name: value + "x"}, {name: ""}):
        with httpx.Client(base_url=browser.base_url, cookies=wrong) as other:
            assert other.get("/v1/jobs").status_code == 401
    with httpx.Client(base_url=browser.base_url) as other:
        for field, status in (
            (f"a=b; {name}={value}", 200),
            (f"{name}={value}; c", 200),
            (f"{name}; {name}={value}x", 401),
            (f"{name}", 401),
        ):
            assert other.get("/v1/jobs", headers={"Cookie": field}).status_code == status, field


def test_behind_tls_the_cookie_is_secure(server: ServerProcess, keys: dict[str, str]) -> None:
    headers = {"X-Forwarded-Proto": "https"}  # from a proxy on this machine
    answer = httpx.post(f"{server.url}/session", json={"key": keys["read"]}, headers=headers)
    assert "Secure" in answer.headers["set-cookie"]


def test_forwarded_headers_are_trusted_only_from_proxies(tmp_path: Path) -> None:
    key = add_key(tmp_path, "read", "read")
    options = {"data_dir": tmp_path, "executor_form": "in_process", "log_level": "error"}
    headers = {"X-Forwarded-Proto": "https"}
    for proxies, is_secure in ((("192.0.2.0/24",), False), (("127.0.0.0/8",), True), ((), False)):
        with served(Settings(**options, trusted_proxies=proxies)) as url:
            answer = httpx.post(f"{url}/session", json={"key": key}, headers=headers)
            assert ("Secure" in answer.headers["set-cookie"]) is is_secure


def test_a_server_without_keys_needs_no_session(tmp_path: Path) -> None:
    with served(Settings(data_dir=tmp_path, executor_form="in_process", log_level="error")) as url:
        scopes = ["metrics", "read", "infer", "train", "admin"]
        assert httpx.get(f"{url}/session").json() == {
            "key_needed": False,
            "name": None,
            "scopes": scopes,
        }
        assert httpx.post(f"{url}/session", json={"key": "msk_x"}).status_code == 401
