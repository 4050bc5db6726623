"""Learning rate schedules: the rate at every update until after their end."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["CASES", "UPDATES", "record", "run_case"]

UPDATES = (*range(1, 41), 60, 61, 100)
"""Updates only ever go forward: some schedules keep state. Gaps are allowed."""

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "factor": ("FactorScheduler", {"step": 5, "factor": 0.7, "base_lr": 0.3}),
    "factor_stops": ("FactorScheduler", {"step": 2, "factor": 0.5, "stop_factor_lr": 0.001}),
    "factor_warmup": (
        "FactorScheduler",
        {"step": 6, "factor": 0.9, "warmup_steps": 8, "warmup_begin_lr": 0.002},
    ),
    "factor_warmup_constant": (
        "FactorScheduler",
        {
            "step": 6,
            "factor": 0.9,
            "warmup_steps": 8,
            "warmup_begin_lr": 0.002,
            "warmup_mode": "constant",
        },
    ),
    "multifactor": ("MultiFactorScheduler", {"step": [3, 10, 30], "factor": 0.1, "base_lr": 1.0}),
    "multifactor_warmup": (
        "MultiFactorScheduler",
        {"step": [9, 20], "factor": 0.5, "base_lr": 0.1, "warmup_steps": 5},
    ),
    "poly": ("PolyScheduler", {"max_update": 30, "base_lr": 0.5}),
    "poly_linear_warmup": (
        "PolyScheduler",
        {
            "max_update": 35,
            "base_lr": 0.5,
            "pwr": 1,
            "final_lr": 0.05,
            "warmup_steps": 5,
            "warmup_begin_lr": 0.1,
        },
    ),
    "cosine": ("CosineScheduler", {"max_update": 30, "base_lr": 0.5}),
    "cosine_warmup": (
        "CosineScheduler",
        {
            "max_update": 35,
            "base_lr": 0.5,
            "final_lr": 0.01,
            "warmup_steps": 10,
            "warmup_mode": "constant",
            "warmup_begin_lr": 0.02,
        },
    ),
}


def run_case(mx: Any, case_id: str) -> np.ndarray:
    """Return the rate at every one of ``UPDATES``."""
    kind, arguments = CASES[case_id]
    schedule = getattr(mx.lr_scheduler, kind)(**arguments)
    return np.array([schedule(update) for update in UPDATES], dtype="float64")


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return the rates of all cases."""
    return {case_id: run_case(mx, case_id) for case_id in CASES}
