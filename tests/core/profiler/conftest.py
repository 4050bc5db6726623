"""A stopped profiler with MXNet's default settings, before and after each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import core as mx


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[Path]:
    """Return the file the profiler will write, with aggregate statistics on."""
    path = tmp_path / "trace.json"
    mx.profiler.set_config(filename=str(path), aggregate_stats=True, continuous_dump=False)
    yield path
    mx.profiler.set_state("run")
    mx.profiler.set_config(filename=str(path))
    mx.profiler.resume()
    mx.profiler.dump()
    mx.profiler.set_config()
