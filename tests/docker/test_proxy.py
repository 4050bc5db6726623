"""nginx with the configuration of docker/ in front of a server: all traffic passes unchanged."""

from __future__ import annotations

import json
import re
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served.certificates import make_pair
from served.compose import COMPOSE, read_compose
from served.keys import add_key
from served.network import BATCH, FEATURES, NETWORK
from served.nginx import running_nginx
from served.processes import ENVIRONMENT, wait_until
from served.programs import program
from served.sockets import free_port

CONFIG = COMPOSE.parent / "nginx" / "nginx.conf"
BELOW = "/models"
UPLOAD_BYTES = 100 * 2**20


@dataclass(frozen=True)
class Proxied:
    """A server behind a proxy.

    Attributes:
        server: the server.
        url: address of the proxy.
        key: an admin key of the server.
        trust: accepts the proxy's certificate.
        folder: the proxy's files.
    """

    server: ServerProcess
    url: str
    key: str
    trust: ssl.SSLContext
    folder: Path

    def client(self, **options: Any) -> httpx.Client:
        """Return a client that sends requests through the proxy, with the key."""
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.Client(
            base_url=self.url, headers=headers, verify=self.trust, timeout=60, **options
        )


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    """A server set up as by Compose, and nginx as configured but for addresses and folders."""
    nginx = program("nginx", "nginx")
    folder = tmp_path_factory.mktemp("proxy")
    certificate, private = make_pair(folder, "tls")
    service = read_compose(MODSERVE_ROOT_PATH=BELOW, MODSERVE_ALLOWED_HOSTS='["localhost"]')
    environment = {
        **service["services"]["cpu"]["environment"],
        **ENVIRONMENT,
        "MODSERVE_TRUSTED_PROXIES": '["127.0.0.1"]',  # where nginx runs here
    }
    data_dir = folder / "data"
    data_dir.mkdir()
    key = add_key(data_dir, "tests", "admin")
    with running_server(data_dir, environment=environment) as server:
        port = free_port()
        _write_config(nginx, folder / "nginx.conf", server.url, port, certificate, private)
        trust = ssl.create_default_context(cafile=certificate)
        proxied = Proxied(server, f"https://localhost:{port}", key, trust, folder)
        with running_nginx(nginx, folder / "nginx.conf"):
            wait_until(lambda: _answers(proxied), "nginx to listen")
            yield proxied


def _write_config(
    nginx: str, path: Path, url: str, port: int, certificate: Path, private: Path
) -> None:
    """Write the configuration with the addresses and folders of this test instead of Compose's."""
    text = CONFIG.read_text().replace("/tmp/", f"{path.parent}/")
    shown = subprocess.run([nginx, "-v"], capture_output=True, text=True, check=True).stderr
    version = tuple(map(int, re.findall(r"\d+", shown)[:3]))
    # Old versions lack the keyword; it can be left out here, since an address is never looked up.
    resolve = " resolve" if version >= (1, 27, 3) else ""
    for old, new in (
        ("/run/secrets/tls_cert;", f"{certificate};"),
        ("/run/secrets/tls_key;", f"{private};"),
        ("server modserve:8000 resolve;", f"server {url.partition('//')[2]}{resolve};"),
        ("listen 8443 ", f"listen 127.0.0.1:{port} "),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    path.write_text(text)


def _answers(proxied: Proxied) -> bool:
    try:
        return httpx.get(f"{proxied.url}/livez", verify=proxied.trust).status_code == 200
    except httpx.TransportError:
        return False


def test_events_pass_without_delay(proxied: Proxied) -> None:
    with proxied.client() as http, Client(proxied.server.url, key=proxied.key) as direct:
        with http.stream("GET", "/v1/events?after=latest") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            direct.create_module("told", json.dumps(NETWORK))
            # The stream stays open with far fewer bytes than a buffer of nginx.
            assert any("told" in line for line in stream.iter_lines())
        direct.delete_module("told")


def test_a_large_upload_is_not_buffered_by_the_proxy(proxied: Proxied, tmp_path: Path) -> None:
    count = UPLOAD_BYTES // (4 * 1024)
    data = np.zeros((count, 1024), np.float32)
    np.savez(tmp_path / "large.npz", data=data)
    kept = []

    def blocks() -> Iterator[bytes]:
        with (tmp_path / "large.npz").open("rb") as file:
            while block := file.read(2**20):
                yield block
                kept.extend(path for path in (proxied.folder / "client_body").rglob("*"))

    with proxied.client() as http:
        answer = http.put("/v1/datasets/large?kind=npz", content=blocks())
        assert answer.status_code in (200, 201), answer.text
        assert http.get("/v1/datasets/large").json()["size"] >= UPLOAD_BYTES
        assert kept == []
        assert http.delete("/v1/datasets/large").is_success


def test_predictions_pass_below_the_path(proxied: Proxied) -> None:
    with Client(proxied.server.url, key=proxied.key) as direct:
        direct.create_module("net", json.dumps(NETWORK))
        direct.bind("net", [{"name": "data", "shape": [BATCH, FEATURES]}], for_training=False)
        direct.init_params("net", "xavier", seed=1)
    body = {"data": np.ones((2, FEATURES)).tolist()}
    with proxied.client() as http:
        at_root = http.post("/v1/modules/net/predict", json=body)
        below = http.post(f"{BELOW}/v1/modules/net/predict", json=body)
        assert at_root.json()["outputs"] == below.json()["outputs"]
        created = http.post(f"{BELOW}/v1/modules", json={"name": "net2", "symbol": NETWORK})
        assert created.headers["location"] == f"{BELOW}/v1/modules/net2"
        assert "<title>" in http.get(f"{BELOW}/").text


def test_the_server_learns_the_clients_address_and_scheme(proxied: Proxied) -> None:
    with proxied.client() as http:
        answer = http.post("/session", json={"key": proxied.key})
        assert "Secure" in answer.headers["set-cookie"]
    elsewhere = httpx.HTTPTransport(verify=proxied.trust, local_address="127.0.0.2")
    with httpx.Client(transport=elsewhere, base_url=proxied.url) as stranger:
        # Headers forged by a client are not passed on.
        claimed = {"X-Forwarded-For": "192.0.2.7", "Authorization": "Bearer nonsense"}
        assert stranger.get("/v1/modules", headers=claimed).status_code == 401
    lines = [json.loads(line) for line in proxied.server.log.read_text().splitlines()]
    assert [line["client"] for line in lines if line["message"] == "refused"] == ["127.0.0.2"]


def test_a_foreign_host_is_refused(proxied: Proxied) -> None:
    with proxied.client() as http:
        refused = http.get("/v1/modules", headers={"Host": "evil.example"})
        assert refused.status_code == 403
