"""``make gpu-test`` on small tests that need no GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
    status, rows = report_of(tmp_path, WAITS, "--seconds", "21")
    assert status == 1
    assert rows[0] == {"state": "out of time"}


def test_all_files_with_marked_tests_are_found() -> None:
    names = [Path(path).name for path in gpu_test._marked()]
    assert names[:2] == ["test_gpu.py", "test_gpu.py"]
    assert {"test_golden.py", "test_control_flow_golden.py"} <= set(names)
