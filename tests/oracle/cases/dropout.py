"""Dropout where nothing is random; tests/core/ops/test_dropout.py has the rest."""

from __future__ import annotations

from oracle.case import Case

CASES = (
    Case("inference", "Dropout", {"p": 0.5}, {"data": (3, 4)}, train=False),
    Case("nothing", "Dropout", {"p": 0.0}, {"data": (3, 4)}),
    Case("nothing_always", "Dropout", {"p": 0.0, "mode": "always", "axes": (1,)}, {"data": (3, 4)}),
    Case("inference_axes", "Dropout", {"axes": (0, 2)}, {"data": (3, 4, 2)}, train=False),
)
