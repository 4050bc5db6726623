"""``modserve doctor`` without a model: what it reports about the machine."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import core as mx
from app.cli.doctor import machine
from app.cli.main import app


def ask(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["doctor", *arguments])
    return result.exit_code, result.output


def ask_json(*arguments: str) -> tuple[int, dict]:
    status, output = ask(*arguments, "--json")
    document = json.loads(output)
    return status, {one["step"]: one for one in document["findings"]}


def test_a_healthy_machine(tmp_path: Path) -> None:
    status, found = ask_json("--port", "0", "--data-dir", str(tmp_path / "new" / "var"))
    assert {"versions", "libraries", "cpu(0)", "disk", "port"} <= found.keys()
    assert found["versions"]["details"]["numpy"] == np.__version__
    assert found["cpu(0)"]["details"]["fault"] < 1e-5
    assert found["cpu(0)"]["details"]["memory_bytes"] > 2**20
    assert not (tmp_path / "new").exists()
    assert (status == 0) == all(one["ok"] for one in found.values())


def test_a_port_in_use_comes_with_advice(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        status, text = ask("--port", port, "--data-dir", str(tmp_path))
    assert status == 1
    assert f"✗ port: 127.0.0.1:{port}: Address already in use; choose another by --port" in text
    assert "modserve cannot serve here as it is." in text


def test_a_full_disk_comes_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 1 << 20})
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda path: usage)
    status, found = ask_json("--port", "0", "--data-dir", str(tmp_path))
    assert (status, found["disk"]["ok"]) == (1, False)
    assert "choose another by --data-dir" in found["disk"]["summary"]


def test_a_kernel_with_wrong_results_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = mx.nd.Convolution
    monkeypatch.setattr(mx.nd, "Convolution", lambda *one, **options: right(*one, **options) + 1)
    status, found = ask_json("--port", "0", "--data-dir", str(tmp_path))
    assert (status, found["cpu(0)"]["ok"]) == (1, False)
    assert "wrong numbers" in found["cpu(0)"]["summary"]
