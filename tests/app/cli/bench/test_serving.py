"""The serving suite: what it measures, and how it compares."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import ExitStack
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import orjson
import pytest

from app.cli.bench import serving
from app.cli.bench.serving import run_serving


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "CLIENTS", (2,))
    monkeypatch.setattr(serving, "_ROUNDS", 1)


def test_it_times_its_own_server_and_a_bare_application(
    short: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_serving(0.3, {}, None, as_json=True) == 0
    found = orjson.loads(capsys.readouterr().out)["serving"]
    assert set(found) == {"modserve /v2/2", "modserve npy/2", "bare uvicorn/2"}
    for row in found.values():
        assert row["per_second"] > 0
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["refused"] == 0


def test_a_server_that_refuses_is_not_timed(tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes(b"{}")
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            load = serving.Load(f"http://127.0.0.1:{server.server_port}/v2", body, ())
            with pytest.raises(RuntimeError, match="refused"):
                serving._light(load, 1, 0.1)
        finally:
            server.shutdown()
            thread.join()


def test_ratios_compare_equal_loads(capsys: pytest.CaptureFixture[str]) -> None:
    def row(rate: float) -> dict[str, float]:
        return {"per_second": rate, "p50_ms": 1.0, "p99_ms": 2.0}

    results = {
        "modserve /v2/1": row(300),
        "triton/1": row(200),
        "modserve /v2/8": row(800),
        "triton/8": row(1000),
        "modserve /v2 (perf_analyzer)/8": row(600),
        "triton (perf_analyzer)/8": row(500),
    }
    assert serving._ratios(results, "modserve /v2/1", ["triton"]) == ["1.50"]
    assert serving._ratios(results, "modserve /v2/8", ["triton"]) == ["0.80"]
    assert serving._ratios(results, "modserve /v2 (perf_analyzer)/8", ["triton"]) == ["1.20"]
    serving._print(results, ["triton"], as_json=False)
    assert "1.50" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--peer", "triton"], "NAME=URL"),
        (["--peer", "triton=http://127.0.0.1:1"], "--suite serving"),
    ],
)
def test_invalid_peers_are_refused(options: list[str], text: str, tmp_path: Path) -> None:
    suite = [] if "=" in options[1] else ["--suite", "serving"]
    run = subprocess.run(
        [sys.executable, "-m", "app", "bench", *suite, *options], capture_output=True, text=True
    )
    assert run.returncode == 2
    assert text in run.stderr


def test_its_own_server_requires_a_key(tmp_path: Path) -> None:
    with ExitStack() as stack:
        load = serving._loads(tmp_path, {}, stack)["modserve /v2"]
        assert serving._light(load, 1, 0.1)["refused"] == 0
        with pytest.raises(RuntimeError, match="refused"):
            serving._light(replace(load, key=None), 1, 0.1)
