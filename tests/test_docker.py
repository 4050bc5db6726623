"""The Compose file, checked by tools that need no Docker engine."""

import shutil
import subprocess
import sys
from pathlib import Path

import yaml

DOCKER = Path(__file__).parent.parent / "docker"


def tool(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    assert found is not None, f"{name} is not installed; run make install"
    return found


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
    assert "--insecure" not in (DOCKER / "compose.yaml").read_text()
