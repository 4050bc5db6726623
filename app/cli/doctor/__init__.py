"""``modserve doctor``: whether a model on disk loads, binds and runs, and what the machine has."""

from __future__ import annotations

from app.cli.doctor.report import run_doctor, run_doctor_of, run_machine_doctor

__all__ = ["run_doctor", "run_doctor_of", "run_machine_doctor"]
