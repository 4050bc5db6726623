"""A copy of the dashboard's sources with the packages of its lock file installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

__all__ = ["DASHBOARD", "dashboard_copy", "run_node"]

DASHBOARD = Path(__file__).parents[2] / "app" / "dashboard"
_OLDEST_NODE = 20
_NO_NETWORK = re.compile("ENOTFOUND|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|ENETUNREACH")


def dashboard_copy(root: Path) -> Path:
    """Copy the sources and install their packages, unless that was done before.

    Skips the test if Node is missing or too old, or if the npm registry cannot be reached.
    """
    if shutil.which("npm") is None or _node_version() < _OLDEST_NODE:
        pytest.skip(f"there is no Node {_OLDEST_NODE} or newer")
    folder, done = root / "app" / "dashboard", root / "done"
    if done.exists():
        return folder
    shutil.rmtree(root, ignore_errors=True)
    ignore = shutil.ignore_patterns("node_modules", "schema.d.ts")
    shutil.copytree(DASHBOARD, folder, ignore=ignore)
    shutil.copytree(DASHBOARD.parents[1] / "openapi", root / "openapi")
    command = ["npm", "ci", "--prefer-offline"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if run.returncode and _NO_NETWORK.search(run.stderr):
        pytest.skip("the npm registry cannot be reached")
    assert run.returncode == 0, run.stderr
    done.touch()
    return folder


def run_node(folder: Path, *command: str) -> str:
    """Run a command of the package; return its output."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _node_version() -> int:
    text = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout
    found = re.match(r"v(\d+)", text)
    return int(found[1]) if found else 0
