"""TLS: a server speaks HTTPS with its certificate, and explains an invalid one."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served.certificates import make_pair
from served.keys import add_key
from served.processes import ENVIRONMENT
from served.sockets import head, read_answer


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_pair(tmp_path_factory.mktemp("tls"), "own")


@pytest.fixture(scope="module")
def trust(pair: tuple[Path, Path]) -> Iterator[None]:
    """Make clients in this process and its children trust the certificate."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(pair[0]))
        yield


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, pair: tuple[Path, Path], trust: None
) -> Iterator[ServerProcess]:
    settings = {"MODSERVE_TLS_CERT": str(pair[0]), "MODSERVE_TLS_KEY": str(pair[1])}
    folder = tmp_path_factory.mktemp("served")
    with running_server(folder, environment=ENVIRONMENT | settings) as server:
        yield server
    assert "Traceback" not in server.log.read_text()


def connect(server: ServerProcess, pair: tuple[Path, Path]) -> ssl.SSLSocket:
    url = httpx.URL(server.url)
    context = ssl.create_default_context(cafile=str(pair[0]))
    plain = socket.create_connection((url.host, url.port), timeout=30)
    return context.wrap_socket(plain, server_hostname="localhost")


def test_commands_with_its_settings_trust_its_certificate_and_no_other(
    server: ServerProcess, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    """The health check of a container is such a command."""
    port = str(httpx.URL(server.url).port)
    other = make_pair(tmp_path, "other")[0]
    for certificate, status in ((pair[0], 0), (other, 3)):
        environment = {**os.environ, "MODSERVE_PORT": port, "MODSERVE_TLS_CERT": str(certificate)}
        del environment["SSL_CERT_FILE"]
        command = [sys.executable, "-m", "app", "health"]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == status, ran.stdout + ran.stderr


def test_it_serves_over_tls(server: ServerProcess) -> None:
    assert server.url.startswith("https://")
    with Client(server.url) as client:
        assert client.is_ready()
        assert client.modules() == []


def test_its_own_pages_are_allowed(server: ServerProcess) -> None:
    own = {"Origin": server.url}
    assert httpx.get(f"{server.url}/v1/modules", headers=own).status_code == 200


def test_plain_http_is_refused(server: ServerProcess) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.get(server.url.replace("https", "http") + "/livez")


def test_it_accepts_only_current_tls_versions(
    server: ServerProcess, pair: tuple[Path, Path]
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(pair[0])
    with connect(server, pair) as sock:
        assert sock.version() == "TLSv1.3"
    context.maximum_version = context.minimum_version = ssl.TLSVersion.TLSv1_2
    url = httpx.URL(server.url)
    plain = socket.create_connection((url.host, url.port), timeout=30)
    with context.wrap_socket(plain, server_hostname="localhost") as sock:
        assert sock.version() == "TLSv1.2"


def test_refusals_before_the_application_are_complete(
    server: ServerProcess, pair: tuple[Path, Path]
) -> None:
    for text, status in (
        (b"nonsense\r\n\r\n", 400),
        (head("GET /livez", "X-Long: " + "x" * 70_000), 431),
        (head("GET /livez"), 200),
    ):
        with connect(server, pair) as sock:
            sock.sendall(text)
            assert read_answer(sock).status == status


def start(folder: Path, *options: object) -> subprocess.CompletedProcess[str]:
    """Run a server that is expected to fail at startup."""
    command = [sys.executable, "-m", "app", "serve", "--port", "0", "--data-dir", folder / "data"]
    return subprocess.run(
        [str(word) for word in (*command, *options)], capture_output=True, text=True, timeout=60
    )


def test_an_invalid_file_is_reported_before_anything_is_opened(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    certificate, key = pair
    other_key = make_pair(tmp_path, "other")[1]
    secret_key = make_pair(tmp_path, "secret", "-passout", "pass:guess")[1]
    text = tmp_path / "text.pem"
    text.write_text("no PEM")
    for options, words in (
        (("--tls-cert", tmp_path / "none.pem", "--tls-key", key), "none.pem cannot be read: No"),
        (("--tls-cert", tmp_path, "--tls-key", key), "cannot be read: Is a directory"),
        (("--tls-cert", text, "--tls-key", key), "no certificate and key in PEM"),
        (("--tls-cert", certificate, "--tls-key", text), "no certificate and key in PEM"),
        (("--tls-cert", key, "--tls-key", key), "no certificate and key in PEM"),
        (("--tls-cert", certificate), "no certificate and key in PEM"),
        (("--tls-cert", certificate, "--tls-key", other_key), "does not match"),
        (("--tls-cert", certificate, "--tls-key", secret_key), "is encrypted"),
        (("--tls-key", key), "without --tls-cert"),
    ):
        ended = start(tmp_path, *options)
        told = " ".join(ended.stderr.split()).replace(" ", "")
        assert ended.returncode == 2, ended.stderr
        assert words.replace(" ", "") in told, ended.stderr
        assert "Traceback" not in ended.stderr
    assert not (tmp_path / "data").exists()


def test_certificate_and_key_may_be_in_one_file(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    both = tmp_path / "both.pem"
    both.write_text("".join(path.read_text() for path in pair))
    data_dir = tmp_path / "data"
    key = add_key(data_dir, "reader", "read")
    settings = {"MODSERVE_TLS_CERT": str(both), "SSL_CERT_FILE": str(both)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(pair[0]))
        with running_server(data_dir, environment=ENVIRONMENT | settings) as server:
            answer = httpx.get(f"{server.url}/v1/modules", headers={"X-API-Key": key})
    assert json.loads(answer.content)["items"] == []
