"""The images' recipes, checked by tools that need no Docker engine."""

import json
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

DOCKER = Path(__file__).parent.parent / "docker"


def tool(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    assert found is not None, f"{name} is not installed; run make install"
    return found


@pytest.mark.parametrize("name", ["cpu.Dockerfile", "gpu.Dockerfile"])
def test_dockerfile_passes_hadolint(name: str) -> None:
    run = subprocess.run(
        [tool("hadolint"), str(DOCKER / name)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_compose_file_fits_the_compose_schema() -> None:
    command = [tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]
    run = subprocess.run(
        [*command, str(DOCKER / "compose.yaml")], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_compose_builds_an_existing_dockerfile_and_stays_on_loopback() -> None:
    service = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]["modserve"]
    root = (DOCKER / service["build"]["context"]).resolve()
    assert (root / service["build"]["dockerfile"]).is_file()
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


@pytest.mark.parametrize("name", ["cpu.Dockerfile", "gpu.Dockerfile"])
def test_no_image_serves_everyone_without_keys(name: str) -> None:
    command = (DOCKER / name).read_text().splitlines()[-1]
    assert json.loads(command.removeprefix("CMD ")) == ["modserve", "serve"]
    assert "--insecure" not in (DOCKER / "compose.yaml").read_text()


class Readiness(BaseHTTPRequestHandler):
    """Answers /readyz with the server's status."""

    def do_GET(self) -> None:
        self.send_response(self.server.status if self.path == "/readyz" else 404)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Keep quiet."""


@pytest.mark.parametrize("name", ["cpu.Dockerfile", "gpu.Dockerfile"])
@pytest.mark.parametrize(("status", "is_healthy"), [(200, True), (503, False)])
def test_the_health_check_asks_the_port_that_is_set(
    name: str, status: int, is_healthy: bool
) -> None:
    check = (DOCKER / name).read_text().partition("HEALTHCHECK")[2].partition("CMD ")[2]
    command = json.loads(check.splitlines()[0])
    with HTTPServer(("127.0.0.1", 0), Readiness) as server:
        server.status = status
        threading.Thread(target=server.handle_request).start()
        ran = subprocess.run(
            [sys.executable, *command[1:]],
            env={"MODSERVE_PORT": str(server.server_address[1])},
            capture_output=True,
            check=False,
        )
    assert (ran.returncode == 0) is is_healthy, ran.stderr
