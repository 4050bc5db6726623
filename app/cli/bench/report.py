"""Run the cases and print their timings."""

from __future__ import annotations

import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import typer
from rich.console import Console
from rich.table import Table

from app.cli.bench.cases import CASES, ENGINE, Case
from app.cli.bench.http import predict_json, predict_npy
from app.cli.bench.profile import profile
from app.errors.quoting import did_you_mean

__all__ = ["SUITES", "measure", "run_bench", "run_suite"]

_WARM_UP = 3  # the first steps compile, and allocate buffers
_FEWEST = 5  # measured steps, even if they take longer than asked for

ALL_CASES: Mapping[str, Callable[[], Any]] = {
    **CASES,
    "http/lenet/json": predict_json,
    "http/lenet/npy": predict_npy,
}


SUITES: Mapping[str, Sequence[str]] = {"engine": ENGINE, "all": tuple(ALL_CASES)}
"""Cases that are run sequentially, each in a separate process."""


def measure(case: Case, seconds: float) -> dict[str, float]:
    """Repeat a step for this long; return milliseconds (median, 10th, 90th percentile) and rate."""
    for _ in range(_WARM_UP):
        case.step()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < _FEWEST or time.perf_counter() < end:
        started = time.perf_counter()
        case.step()
        times.append(time.perf_counter() - started)
    median = statistics.median(times)
    return {
        "median_ms": median * 1e3,
        "p10_ms": float(np.percentile(times, 10)) * 1e3,
        "p90_ms": float(np.percentile(times, 90)) * 1e3,
        "per_second": case.samples / median,
        "steps": len(times),
    }


def run_bench(
    names: Sequence[str], seconds: float, as_json: bool, traces: Path | None = None
) -> int:
    """Time the named cases, all by default; return the exit status.

    Args:
        names: of the cases.
        seconds: to measure each case.
        as_json: print JSON instead of a table.
        traces: profile the cases that compute in this process, too: print where their time goes,
            and write a trace of each into this folder.
    """
    for name in names:
        if name not in ALL_CASES:
            known = ", ".join(ALL_CASES)
            hint = did_you_mean(name, ALL_CASES)
            typer.echo(f"case {name!r} is not known{hint}; there are {known}", err=True)
            return 2
    results = {}
    for name in names or ALL_CASES:
        with ALL_CASES[name]() as case:
            results[name] = measure(case, seconds)
            if traces is not None and name in CASES:
                traces.mkdir(parents=True, exist_ok=True)
                path = traces / f"{name.replace('/', '-')}.json"
                typer.echo(f"{name}: {profile(case, path)}trace in {path}", err=as_json)
    _print(results, as_json)
    return 0


def run_suite(suite: str, seconds: float, as_json: bool) -> int:
    """Time the cases of a suite, each in a fresh process; return the exit status."""
    if suite not in SUITES:
        hint = did_you_mean(suite, SUITES)
        typer.echo(f"suite {suite!r} is not known{hint}; there are {', '.join(SUITES)}", err=True)
        return 2
    results = {}
    for name in SUITES[suite]:
        command = [sys.executable, "-m", "app", "bench", name, "--json"]
        run = subprocess.run(
            [*command, "--seconds", str(seconds)], stdout=subprocess.PIPE, check=False
        )
        if run.returncode:
            typer.echo(f"case {name!r} failed with status {run.returncode}", err=True)
            return run.returncode
        results.update(orjson.loads(run.stdout)["cases"])
    _print(results, as_json)
    return 0


def _print(results: Mapping[str, Mapping[str, float]], as_json: bool) -> None:
    if as_json:
        machine = {"machine": platform.machine(), "python": platform.python_version()}
        typer.echo(orjson.dumps({**machine, "cases": results}, option=orjson.OPT_INDENT_2).decode())
    else:
        Console().print(_table(results))


def _table(results: Mapping[str, Mapping[str, float]]) -> Table:
    table = Table("case", title="modserve bench (milliseconds a step)")
    for heading in ("median", "p10", "p90", "samples/s"):
        table.add_column(heading, justify="right")
    for name, row in results.items():
        figures = [f"{row[key]:.3f}" for key in ("median_ms", "p10_ms", "p90_ms")]
        table.add_row(name, *figures, f"{row['per_second']:,.0f}")
    return table
