"""Find out which calls NVIDIA's libraries support on this machine's GPU: ``make gpu-facts``.

The report has a line of JSON for each case, written as soon as its result is known. Each part runs
its cases in a process of its own. If a case kills the process, the report says so, and a new
process continues with the next case.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from hardware.device import Device
from hardware.headers import Library

__all__ = ["PARTS", "main"]

PARTS = {
    "legacy": "hardware.facts.legacy",
    "arrays": "hardware.facts.arrays",
    "recurrent": "hardware.facts.recurrent",
    "matmul": "hardware.facts.matmul",
    "convolution": "hardware.facts.convolution",
}
_START_SECONDS = 300.0
_CASE_SECONDS = 60.0
_LOST_DEVICE = 3
"""Exit status of a process whose device no longer answers."""
_BEGUN, _ALL_TRIED, _NOT_BEGUN = "begun", "all tried", "did not begin"
_TESTS = Path(__file__).parents[1]


def main(arguments: list[str]) -> int:
    """Run the parts; return 0 if each could start."""
    parser = argparse.ArgumentParser(description=__doc__, prog="make gpu-facts")
    parser.add_argument("--report", type=Path, default=Path("gpu-facts.jsonl"))
    parser.add_argument("--seconds", type=float, default=500, help="for all parts together")
    parser.add_argument("--module", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    given = parser.parse_args(arguments)
    if given.module:
        return _run_cases(import_module(given.module), given.first)
    unknown = set(given.parts) - PARTS.keys()
    if unknown:
        parser.error(f"no part is named {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    chosen = {name: PARTS[name] for name in given.parts or PARTS}
    given.report.parent.mkdir(parents=True, exist_ok=True)
    return run_parts(chosen, given.report, time.monotonic() + given.seconds)


def run_parts(parts: dict[str, str], report: Path, deadline: float) -> int:
    """Run the cases of modules, and write and summarize the results."""
    counts: dict[str, Counter[str]] = {}
    with report.open("w", encoding="utf-8") as file:

        def write(row: dict[str, Any]) -> None:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())

        write({"part": "machine", **_machine()})
        for number, (part, module) in enumerate(parts.items()):
            counts[part] = Counter()
            share = (deadline - time.monotonic()) / (len(parts) - number)
            for row in _part_rows(module, time.monotonic() + share):
                write({"part": part, **row})
                counts[part].update(_words_of(row))
                if row.get("state") == _NOT_BEGUN:
                    print(f"{part} did not begin: {row['error']}", flush=True)
            print(part, dict(counts[part]), flush=True)
    print(f"written to {report}")
    return int(any(not count or _NOT_BEGUN in count for count in counts.values()))


def _words_of(row: dict[str, Any]) -> list[str]:
    if "case" not in row:
        return [row["state"]]
    if row["found"].get("runs", True) and "error" not in row["found"]:
        return [name for name, value in row["found"].items() if value is True] or ["known"]
    return ["captures not" if row["found"].get("runs") else "runs not"]


def _part_rows(module: str, deadline: float) -> Iterator[dict[str, Any]]:
    first, state = 0, ""
    while state != _ALL_TRIED:
        before, begun = first, None
        with TemporaryFile("w+") as said, _process(module, first, said) as process:
            for row in _rows(process, deadline):
                state = row.pop("state", "")
                begun = row if state == _BEGUN else None
                if "found" in row:
                    yield row
                    first = row["number"] + 1
            status = process.wait()
            said.seek(0)
            why = (said.read().strip().splitlines() or [""])[-1]
        if state == _ALL_TRIED or (status == _LOST_DEVICE and first > before):
            continue
        if time.monotonic() > deadline:
            yield {"state": "out of time", "next": first}
            return
        if begun is None:
            yield {"state": _NOT_BEGUN, "error": why}
            return
        error = f"the process ended with {status}: {why}"
        yield {**begun, "found": {"runs": False, "error": error}}
        first = begun["number"] + 1


def _process(module: str, first: int, said: IO[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "hardware.gpu_facts", "--module", module, "--first"]
    folders = [str(_TESTS), str(_TESTS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    output = {"stdout": subprocess.PIPE, "stderr": said}
    return subprocess.Popen([*command, str(first)], env=environment, **output)


def _rows(process: subprocess.Popen[bytes], deadline: float) -> Iterator[dict[str, Any]]:
    """Yield the lines of a process, which is killed if the next one takes too long."""
    assert process.stdout is not None
    pending, limit = b"", _START_SECONDS
    while True:
        wait = min(limit, deadline - time.monotonic())
        if not select.select([process.stdout], [], [], max(wait, 0))[0]:
            process.kill()
            return
        read = os.read(process.stdout.fileno(), 1 << 16)
        if not read:
            return
        *lines, pending = (pending + read).split(b"\n")
        yield from map(json.loads, lines)
        limit = _CASE_SECONDS


def _run_cases(module: Any, first: int) -> int:
    """Try the cases from a given one on, in this process; print a line for each."""
    if module.LIBRARY is not None:
        lacks = Library(*module.LIBRARY).lacks(module.FUNCTIONS)
        if lacks:
            raise SystemExit(f"{module.LIBRARY[0]} has no {', '.join(lacks)}")
    device = getattr(module, "Device", Device)()
    probe = module.Probe(device)
    device.keep()
    for number, case in enumerate(module.cases()):
        if number < first:
            continue
        _say({"state": _BEGUN, "number": number, "case": case})
        begin = time.perf_counter()
        try:
            found = probe.run(case)
        except Exception as error:  # each library raises its own; every error is a result
            found = {"runs": False, "error": f"{type(error).__name__}: {error}"}
        seconds = round(time.perf_counter() - begin, 4)
        _say({"number": number, "case": case, "found": found, "seconds": seconds})
        if "error" in found and not device.is_healthy:
            return _LOST_DEVICE
        device.free()
    _say({"state": _ALL_TRIED})
    return 0


def _say(row: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


def _machine() -> dict[str, Any]:
    from importlib.metadata import distributions

    wanted = ("cupy", "cuda", "cudnn", "nvidia", "numpy", "torch")
    packages = {
        str(one.metadata["Name"]): one.version
        for one in distributions()
        if any(part in str(one.metadata["Name"]).lower() for part in wanted)
    }
    try:
        fields = "--query-gpu=name,driver_version,memory.total,compute_cap"
        found = subprocess.run(
            ["nvidia-smi", fields, "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
        )
        gpu = found.stdout.strip() or found.stderr.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        gpu = str(error)
    return {"gpu": gpu, "python": sys.version.split()[0], "packages": packages}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
