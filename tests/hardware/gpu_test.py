"""Run everything marked ``gpu`` on the GPU of this machine: ``make gpu-test``.

The report has a line of JSON for each test, written as soon as the test has ended, so that it
tells what was found even if the time runs out. A few of the tests run under compute-sanitizer
afterwards.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

__all__ = ["main"]

_ROOT = Path(__file__).parents[2]
_VARIABLE = "GPU_TEST_REPORT"
_SANITIZED = ("tests/core/executor/test_gpu.py", "tests/core/ndarray/test_gpu.py")
_FOR_SANITIZER = 90.0
_FOR_DEVICES = 60.0
_COUNT_DEVICES = "import cupy; print(cupy.cuda.runtime.getDeviceCount())"
_GRACE = 20.0
"""Seconds that an interrupted pytest gets for its summary."""


def main(arguments: list[str]) -> int:
    """Run the tests; return 0 if some ran and all passed in time."""
    parser = argparse.ArgumentParser(description=__doc__, prog="make gpu-test")
    parser.add_argument("--report", type=Path, default=Path("gpu-test.jsonl"))
    parser.add_argument("--seconds", type=float, default=500, help="of all together")
    parser.add_argument("--processes", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("paths", nargs="*", help="files of tests; all that mark some by default")
    given = parser.parse_args(arguments)
    deadline = time.monotonic() + given.seconds
    report = given.report.resolve()
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text("", encoding="utf-8")
    missing = [] if given.paths else _missing(given.processes > 1)
    if missing:
        _write(report, {"state": "missing", "what": missing})
        print("Nothing was run:", *missing, sep="\n  ")
        return 1
    sanitizer = None if given.paths else shutil.which("compute-sanitizer")
    until = deadline - (_FOR_SANITIZER if sanitizer else 0)
    status = _run(given.paths or _marked(), report, given.processes, until)
    if sanitizer:
        _sanitize(sanitizer, report, deadline)
    return max(status, _sum_up(report))


def _missing(spreads: bool) -> list[str]:
    """Return what this Python lacks to run the tests on a GPU, in words."""
    packages = ["numpy", "ml_dtypes", "pytest_asyncio", "pytest_timeout"]
    packages += ["xdist"] if spreads else []
    found = [
        f"{sys.executable} has no package {name}: carry its wheel along in .gpu-wheels"
        for name in packages
        if importlib.util.find_spec(name) is None
    ]
    command = [sys.executable, "-c", _COUNT_DEVICES]
    try:
        counted = subprocess.run(command, capture_output=True, text=True, timeout=_FOR_DEVICES)
        why = (counted.stderr.strip().splitlines() or ["CuPy finds none"])[-1]
        has_device = counted.returncode == 0 and int(counted.stdout) > 0
    except subprocess.TimeoutExpired:
        has_device, why = False, f"CuPy did not answer within {_FOR_DEVICES:.0f} s"
    return found if has_device else [*found, f"no CUDA device can be used: {why}"]


def _marked() -> list[str]:
    files = (path for path in (_ROOT / "tests" / "core").rglob("test_*.py"))
    marked = [str(path) for path in files if "pytest.mark.gpu" in path.read_text(encoding="utf-8")]
    return sorted(marked, key=lambda path: ("test_gpu" not in path, path))


def _run(paths: Sequence[str], report: Path, processes: int, deadline: float) -> int:
    """Run tests in parallel processes; CuPy compiles its kernels in each."""
    options = ["-c", str(_ROOT / "pyproject.toml"), "-m", "gpu", "-q", "--tb=short"]
    options += ["-p", "hardware.gpu_test", "--timeout=120"]
    spread = ["--numprocesses", str(processes)] if processes > 1 else []
    command = [sys.executable, "-m", "pytest", *options, *spread, *paths]
    return _end_in_time(command, report, deadline)


def _end_in_time(command: list[str], report: Path, deadline: float) -> int:
    path = os.pathsep.join([str(_ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])])
    # xdist workers do not report, except that its own tests start one that must.
    ours = {name: value for name, value in os.environ.items() if "PYTEST_XDIST" not in name}
    environment = {**ours, _VARIABLE: str(report), "PYTHONPATH": path}
    # A process group of its own, so that pytest and its workers are interrupted together.
    process = subprocess.Popen(command, cwd=_ROOT, env=environment, process_group=0)
    try:
        return process.wait(max(deadline - _GRACE - time.monotonic(), 1))
    except subprocess.TimeoutExpired:
        _write(report, {"state": "out of time"})
    except BaseException:
        _interrupt(process)
        raise
    _interrupt(process)
    return 1


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Let pytest sum up what it found, and kill it if that takes too long."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _sanitize(sanitizer: str, report: Path, deadline: float) -> None:
    command = [
        sanitizer,
        "--error-exitcode",
        "9",
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "gpu",
    ]
    # Its lines go to the terminal; only whether it found something matters.
    status = _end_in_time([*command, "-p", "no:xdist", *_SANITIZED], Path(os.devnull), deadline)
    _write(report, {"state": "sanitized", "status": status})
    print(f"compute-sanitizer: {'nothing found' if status == 0 else f'status {status}'}")


def _sum_up(report: Path) -> int:
    """Print how many tests ended how, by file, and each distinct error once."""
    rows = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
    tests = [row for row in rows if "test" in row]
    by_file = Counter((row["test"].partition("::")[0], row["outcome"]) for row in tests)
    for (file, outcome), count in sorted(by_file.items()):
        print(f"{count:6} {outcome:8} {file}")
    errors = Counter(row["error"] for row in tests if row["outcome"] == "failed")
    for error, count in errors.most_common(40):
        print(f"{count:6} x {error[:300]}")
    print(f"written to {report}")
    outcomes = {row["outcome"] for row in tests}
    if not outcomes - {"skipped"}:
        print("no test ran to its end: either all were skipped, or pytest could not begin")
        return 1
    return int("failed" in outcomes)


def _write(report: Path, row: dict[str, Any]) -> None:
    with report.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record how a test ended; xdist forwards workers' reports to the parent."""
    path = os.environ.get(_VARIABLE)
    is_end = report.when == "call" or report.outcome != "passed"
    if path is None or path == os.devnull or not is_end or "PYTEST_XDIST_WORKER" in os.environ:
        return
    crash = getattr(report.longrepr, "reprcrash", None)
    said = crash.message if crash is not None else str(report.longrepr or "")
    row = {"test": report.nodeid, "outcome": report.outcome, "seconds": round(report.duration, 3)}
    _write(Path(path), row | {"error": said.strip().partition("\n")[0][:500]})


def _end(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main(sys.argv[1:]))
