"""``make gpu-test`` on small tests that need no GPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.backends import gpu_count
from hardware import gpu_test

TESTS = """
import time

import pytest

pytestmark = pytest.mark.gpu


def test_passes(): ...


def test_fails():
    assert 1 == 2, "what it says"


@pytest.fixture
def broken():
    raise ValueError("no device")


def test_does_not_begin(broken): ...


@pytest.mark.skip(reason="not here")
def test_skipped(): ...
"""
WAITS = """
import time

import pytest


@pytest.mark.gpu
def test_waits():
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def start_pytest_with_few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load only the plugins that the options need; to import all that are installed takes 1.5 s."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_timeout,pytest_asyncio.plugin")


def report_of(folder: Path, text: str, *options: str) -> tuple[int, list[dict[str, object]]]:
    tests, report = folder / "test_one.py", folder / "out" / "report.jsonl"
    tests.write_text(text)
    status = gpu_test.main(["--report", str(report), "--processes", "1", *options, str(tests)])
    return status, [json.loads(line) for line in report.read_text().splitlines()]


def test_each_test_has_a_line_in_the_report(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status, rows = report_of(tmp_path, TESTS)
    assert status == 1
    assert [(str(row["test"]).rpartition("::")[2], row["outcome"]) for row in rows] == [
        ("test_passes", "passed"),
        ("test_fails", "failed"),
        ("test_does_not_begin", "failed"),
        ("test_skipped", "skipped"),
    ]
    assert str(rows[1]["error"]).startswith("AssertionError: what it says")
    assert "no device" in str(rows[2]["error"])
    printed = capfd.readouterr().out
    assert "1 x AssertionError: what it says" in printed


def test_exit_status_is_0_if_all_pass_and_1_if_none_ran(tmp_path: Path) -> None:
    only_passes, _, _ = TESTS.partition("def test_fails")
    assert report_of(tmp_path, only_passes)[0] == 0
    assert report_of(tmp_path, only_passes.replace("def test_passes", "def no_test"))[0] != 0


def test_the_report_is_complete_when_time_runs_out(tmp_path: Path) -> None:
    # Of these, 20 s are reserved for pytest's summary.
    status, rows = report_of(tmp_path, WAITS, "--seconds", "21")
    assert status == 1
    assert rows[0] == {"state": "out of time"}


def test_all_files_with_marked_tests_are_found() -> None:
    names = [Path(path).name for path in gpu_test._marked()]
    assert names[:2] == ["test_gpu.py", "test_gpu.py"]
    assert {"test_golden.py", "test_control_flow_golden.py"} <= set(names)


@pytest.mark.skipif(gpu_count() > 0, reason="there is a CUDA device")
def test_what_is_missing_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.jsonl"
    assert gpu_test.main(["--report", str(report)]) == 1
    (row,) = [json.loads(line) for line in report.read_text().splitlines()]
    assert row["state"] == "missing"
    assert row["what"][-1].startswith("no CUDA device can be used: ")
    assert row["what"][-1] in capsys.readouterr().out


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_test, "_COUNT_DEVICES", "print(1)")
    assert gpu_test._missing(spreads=True) == []
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "xdist" else name)
    assert gpu_test._missing(spreads=False) == []
    (said,) = gpu_test._missing(spreads=True)
    assert "has no package xdist" in said


def test_a_terminated_run_ends_its_tests_and_keeps_the_report(tmp_path: Path) -> None:
    tests, report = tmp_path / "test_one.py", tmp_path / "report.jsonl"
    tests.write_text(
        WAITS.replace("@pytest", "@pytest.mark.gpu\ndef test_first(): ...\n\n\n@pytest", 1)
    )
    command = [sys.executable, "-m", "hardware.gpu_test", "--report", str(report)]
    folders = [str(gpu_test._ROOT / "tests"), str(gpu_test._ROOT)]
    running = subprocess.Popen(
        [*command, "--processes", "1", str(tests)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (report.exists() and report.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    running.terminate()
    # The pipe ends only when pytest, which has inherited it, has ended as well.
    said, _ = running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGTERM
    assert "KeyboardInterrupt" in said
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    assert [(row["test"].partition("::")[2], row["outcome"]) for row in rows] == [
        ("test_first", "passed")
    ]
