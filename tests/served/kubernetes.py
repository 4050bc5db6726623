"""The manifests of docker/kubernetes as the API server receives them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.domain.api_key import new_key_text

__all__ = ["KUBERNETES", "environment_of", "kustomize"]

KUBERNETES = Path(__file__).parents[2] / "docker" / "kubernetes"


def kustomize(name: str, folder: Path) -> list[dict[str, Any]]:
    """Build an overlay in a copy, since it needs a key, which is in no repository."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("there is no kubectl")
    copy = folder / "kubernetes"
    if not copy.exists():
        shutil.copytree(KUBERNETES, copy)
        for each in ("base", "kserve"):
            (copy / each / "api_key").write_text(new_key_text())
    command = [kubectl, "kustomize", str(copy / name)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return list(yaml.safe_load_all(built.stdout))


def environment_of(container: dict[str, Any], secrets: dict[str, str]) -> dict[str, str]:
    """Return a container's variables.

    Args:
        secrets: values by the key in their secret.
    """
    return {
        one["name"]: one["value"]
        if "value" in one
        else secrets[one["valueFrom"]["secretKeyRef"]["key"]]
        for one in container["env"]
    }
