"""nginx that passes ``Upgrade`` on, as for WebSockets: no body becomes another request."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served.network import BATCH, FEATURES, NETWORK
from served.nginx import running_nginx
from served.processes import ENVIRONMENT, wait_until
from served.programs import program
from served.sockets import connect, free_port, head, read_answer

H2C = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")
SMUGGLED = head("DELETE /v1/datasets/victim") + head("GET /v1/modules/net/params")
BODY = json.dumps({"data": [[0.5] * FEATURES]}).encode()
ROUNDS = 10

CONFIG = """
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/client_body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    map $http_upgrade $if_asked {{ default upgrade; "" ""; }}
    upstream modserve {{ server {server}; keepalive 1; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://modserve;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection {connection};
            proxy_request_buffering {buffering};
        }}
    }}
}}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running_server(tmp_path_factory.mktemp("data"), environment=ENVIRONMENT) as server:
        with Client(server.url) as client:
            client.create_module("net", json.dumps(NETWORK))
            shapes = [{"name": "data", "shape": [BATCH, FEATURES]}]
            client.bind("net", shapes, for_training=False)
            client.init_params("net", "xavier", seed=1)
        yield server


@pytest.fixture(params=["$if_asked", '"upgrade"'], ids=["if-asked", "always"])
def connection(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["on", "off"], ids=["buffered", "unbuffered"])
def proxy(
    request: pytest.FixtureRequest, connection: str, server: ServerProcess, tmp_path: Path
) -> Iterator[str]:
    """The address of a proxy whose one connection to the server serves all its clients."""
    nginx, port = program("nginx", "nginx"), free_port()
    own = {"connection": connection, "buffering": request.param, "folder": tmp_path, "port": port}
    config = tmp_path / "nginx.conf"
    config.write_text(CONFIG.format(server=server.url.partition("//")[2], **own))
    url = f"http://127.0.0.1:{port}"
    with running_nginx(nginx, config):
        wait_until(lambda: _answers(url), "nginx to listen")
        yield url


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/livez").status_code == 200
    except httpx.TransportError:
        return False


def upload(proxy: str) -> None:
    """Store a text that looks like requests, its body after its head."""
    with connect(proxy) as sock:
        line = "PUT /v1/datasets/text?kind=text"
        sock.sendall(head(line, *H2C, f"Content-Length: {len(SMUGGLED)}"))
        for piece in (SMUGGLED[:20], SMUGGLED[20:]):
            time.sleep(0.01)  # so that nginx passes each on by itself
            sock.sendall(piece)
        assert read_answer(sock).status == 200


def test_clients_get_their_own_answers(server: ServerProcess, proxy: str) -> None:
    httpx.put(f"{server.url}/v1/datasets/victim?kind=text", content=b"kept")
    with ThreadPoolExecutor(1) as pool, httpx.Client(base_url=proxy) as other:
        attack = pool.submit(lambda: [upload(proxy) for _ in range(ROUNDS)])
        while not attack.done():
            assert other.get("/v1/datasets/victim").json()["size"] == 4
            assert other.get("/livez").json()["status"] == "alive"
    attack.result()
    assert httpx.get(f"{server.url}/v1/datasets/text/file").content == SMUGGLED


@pytest.mark.parametrize(
    "path", ["/v1/modules/net/predict", "/v1/modules/net/predict?version=live"]
)
def test_predictions_pass(server: ServerProcess, proxy: str, path: str) -> None:
    plain = httpx.post(f"{server.url}{path}", content=BODY)
    for _ in range(ROUNDS):
        with connect(proxy) as sock:
            sock.sendall(head(f"POST {path}", *H2C, f"Content-Length: {len(BODY)}"))
            sock.sendall(BODY)
            answer = read_answer(sock)
        assert answer.status == plain.status_code
        assert json.loads(answer.body).get("outputs") == plain.json().get("outputs")
