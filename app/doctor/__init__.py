"""Whether a model on disk loads, binds and runs here, and what this machine has to run it on.

That is ``modserve doctor``.
"""

from __future__ import annotations

from app.doctor.report import run_doctor, run_doctor_of, run_machine_doctor

__all__ = ["run_doctor", "run_doctor_of", "run_machine_doctor"]
