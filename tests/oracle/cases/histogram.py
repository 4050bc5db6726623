"""Histograms."""

from __future__ import annotations

from oracle.case import Case, integers, permutation, values

_TIED = integers(5, 6, high=7)

CASES = (
    Case("edges", "_histogram", {}, {"data": _TIED, "bins": values([1, 2, 2.5, 6])}, grads=False),
    Case("equal", "_histogram", {"bin_cnt": 3, "range": (1.0, 6.0)}, {"data": _TIED}, grads=False),
    Case(
        "wide",
        "_histogram",
        {"bin_cnt": 10, "range": (-4.0, 4.0)},
        {"data": permutation(4, 6)},
        grads=False,
    ),
)
