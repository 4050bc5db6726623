"""What a model on disk is, and whether it loads, binds and runs here (``modserve doctor``)."""

from __future__ import annotations

from app.doctor.report import run_doctor

__all__ = ["run_doctor"]
