"""Two engines that stay loaded and work in turn, so that other load of the machine slows both."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

__all__ = ["compare", "repeat_on_request"]


def repeat_on_request(step: Callable[[], object]) -> None:
    """For each line, a number of seconds, repeat the step for so long and print its median ms."""
    for _ in range(3):
        step()
    print("ready", flush=True)
    for line in sys.stdin:
        step()  # not timed: the caches still hold the other engine's memory
        end, times = time.perf_counter() + float(line), []
        while not times or time.perf_counter() < end:
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        print(statistics.median(times) * 1e3, flush=True)


def compare(
    name: str,
    own: list[str],
    other: list[str],
    engine: str,
    *,
    rounds: int,
    seconds: float,
    environ: Mapping[str, str] | None = None,
) -> float:
    """Let two commands repeat their steps in turn; print and return the ratio of their times.

    Args:
        name: what is printed first in the line.
        own: command of a process that calls ``repeat_on_request`` for this engine.
        other: command of one that does the same for another engine.
        engine: name of the other engine.
        rounds: turns of each.
        seconds: of each turn.
        environ: the processes' environment; None for this process's.

    Returns:
        The median over the rounds of our time divided by theirs.
    """
    processes = [_start(command, environ) for command in (own, other)]
    pairs = [[_time_of(process, seconds) for process in processes] for _ in range(rounds)]
    for process in processes:
        process.communicate()
    own_times, other_times = zip(*pairs, strict=True)
    ratio = statistics.median(mine / theirs for mine, theirs in pairs)
    print(
        f"{name:20} {statistics.median(own_times):9.3f} ms = {ratio:.2f} x {engine} "
        f"({statistics.median(other_times):.3f}); best times {min(own_times):.3f}, "
        f"{min(other_times):.3f}: {min(own_times) / min(other_times):.2f}",
        flush=True,
    )
    return ratio


def _start(command: list[str], environ: Mapping[str, str] | None) -> subprocess.Popen[str]:
    """Start a process; return it when it is ready."""
    root = Path(__file__).parents[2]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, cwd=root, env=environ and dict(environ)
    )
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        raise SystemExit(f"{' '.join(command)} failed")
    return process


def _time_of(process: subprocess.Popen[str], seconds: float) -> float:
    """Let a process work for a while; return the median milliseconds of its step."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{seconds}\n")
    process.stdin.flush()
    return float(process.stdout.readline())
