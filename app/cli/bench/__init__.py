"""Timings of this machine: training steps, predictions in process and over HTTP."""

from __future__ import annotations

from app.cli.bench.report import run_bench, run_suite
from app.cli.bench.serving import run_serving

__all__ = ["run_bench", "run_serving", "run_suite"]
