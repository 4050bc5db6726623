"""Forks of MXNet's modules and MXNet's own Python, as published, on the engine.

None of these sources is in the repository: each test runs where an environment variable names them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import core

HERE = Path(__file__).parent
MXNET = os.environ.get("MXNET_SOURCES", "")
"""A checkout of MXNet 1.9.1."""
SIMPLEDET = os.environ.get("SIMPLEDET_SOURCES", "")
"""A checkout of SimpleDet."""
RCNN = os.environ.get("RCNN_SOURCES", "")
"""The folder ``example/rcnn`` of MXNet 1.0."""

needs_mxnet = pytest.mark.skipif(not MXNET, reason="MXNET_SOURCES names no checkout")
needs_forks = pytest.mark.skipif(
    not (SIMPLEDET and RCNN), reason="SIMPLEDET_SOURCES and RCNN_SOURCES name no checkouts"
)


def _run(folder: Path, *arguments: str) -> str:
    (folder / "mxnet").symlink_to(Path(core.__file__).parent)
    run = subprocess.run(
        [sys.executable, str(HERE / "published.py"), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@needs_forks
@pytest.mark.parametrize(
    "modules", ["engine", pytest.param("mxnet", marks=needs_mxnet)], ids=lambda name: f"on {name}"
)
def test_forked_modules_fit_as_on_mxnet(tmp_path: Path, modules: str) -> None:
    options = ["--modules", f"{MXNET}/python/mxnet"] if modules == "mxnet" else []
    got = json.loads(_run(tmp_path, "fit", SIMPLEDET, RCNN, *options))["sums"]
    golden = json.loads((HERE / "golden" / "published.json").read_text())
    assert golden["sums"].keys() == got.keys()
    for name, expected in golden["sums"].items():
        assert got[name] == pytest.approx(expected, rel=1e-5), name


@needs_mxnet
@pytest.mark.slow
@pytest.mark.timeout(2000)
@pytest.mark.parametrize(
    ("file", "option", "count"),
    [("test_module.py", "--modules", 22), ("test_gluon_trainer.py", "--trainer", 11)],
)
def test_mxnets_python_sources_pass_their_own_tests(
    tmp_path: Path, file: str, option: str, count: int
) -> None:
    tests, python = f"{MXNET}/tests/python/unittest/{file}", f"{MXNET}/python/mxnet"
    said = _run(tmp_path, "test", tests, option, python)
    assert re.search(rf"^{count} passed\b", said, re.MULTILINE), said
