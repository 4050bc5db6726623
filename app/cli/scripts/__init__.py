"""Running unmodified MXNet scripts: ``modserve run``."""

from __future__ import annotations

from app.cli.scripts.launch import ArgumentError, run_script

__all__ = ["ArgumentError", "run_script"]
