"""Factors of rectangular matrices."""

from __future__ import annotations

from oracle.case import Case

CASES = (
    Case("wide", "_linalg_gelqf", {}, {"A": (2, 4)}),
    Case("square", "_linalg_gelqf", {}, {"A": (3, 3)}),
    Case("stack", "_linalg_gelqf", {}, {"A": (2, 2, 3)}),
)
