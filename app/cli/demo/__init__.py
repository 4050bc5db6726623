"""A tour of the server: train LeNet on handwritten digits, then ask it about one."""

from __future__ import annotations

from app.cli.demo.tour import run_demo

__all__ = ["run_demo"]
