"""Ask a GPU everything that can only be asked of one, most important first: ``make gpu-first``.

Each part runs in a process of its own within its own limit, and prints a line of JSON for
everything it finds out, which goes to the report at once. A part that kills its process, or its
device, costs no other part anything.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

__all__ = ["PARTS", "main"]

PARTS = {
    "properties": ("hardware.first.properties", 40.0),
    "prebuilt": ("hardware.first.prebuilt", 40.0),
    "ceilings": ("hardware.first.ceilings", 45.0),
    "faults": ("hardware.first.faults", 30.0),
    "pytorch": ("hardware.first.pytorch", 80.0),
}
"""The module of each part, and its limit in seconds."""
_TESTS = Path(__file__).parents[1]


def main(arguments: list[str]) -> int:
    """Run the parts one after the other; return 0 if each ended by itself and in time."""
    parser = argparse.ArgumentParser(description=__doc__, prog="make gpu-first")
    parser.add_argument("--report", type=Path, default=Path("gpu-first.jsonl"))
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    given = parser.parse_args(arguments)
    unknown = set(given.parts) - PARTS.keys()
    if unknown:
        parser.error(f"no part is named {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    given.report.parent.mkdir(parents=True, exist_ok=True)
    with given.report.open("w", encoding="utf-8") as report:
        return max(run_part(name, *PARTS[name], report) for name in given.parts or PARTS)


def run_part(name: str, module: str, seconds: float, report: IO[str]) -> int:
    """Run a module; write its lines, and then how it ended, as lines of the report."""
    begin = time.monotonic()
    folders = [str(_TESTS), str(_TESTS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "PYTHONUNBUFFERED": "1"}
    lines = report.name + f".{name}"
    with open(lines, "w+", encoding="utf-8") as found, open(lines + ".err", "w+") as said:
        command = [sys.executable, "-m", module]
        with subprocess.Popen(command, env=environment, stdout=found, stderr=said) as process:
            try:
                state = f"status {process.wait(seconds)}"
            except subprocess.TimeoutExpired:
                process.kill()
                state = "out of time"
        found.seek(0)
        said.seek(0)
        for line in found:
            if line.startswith("{"):
                report.write(json.dumps({"part": name, **json.loads(line)}) + "\n")
        error = said.read().strip()[-1500:]
    os.unlink(lines)
    os.unlink(lines + ".err")
    took = round(time.monotonic() - begin, 1)
    ended = {"part": name, "ended": state, "seconds": took, "error": error}
    report.write(json.dumps(ended) + "\n")
    report.flush()
    print(f"{name}: {state} after {took} s {error.splitlines()[-1] if error else ''}", flush=True)
    return int(state != "status 0")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
