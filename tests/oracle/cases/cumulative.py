"""Cumulative sums."""

from __future__ import annotations

from oracle.case import Case, integers

CASES = (
    Case("flat", "cumsum", {}, {"a": (2, 3)}),
    Case("first", "cumsum", {"axis": 0}, {"a": (2, 3)}),
    Case("last", "cumsum", {"axis": 2}, {"a": (2, 3, 2)}),
    Case("wider", "cumsum", {"axis": 1, "dtype": "float64"}, {"a": (2, 3)}),
    Case("whole", "cumsum", {"axis": 1}, {"a": integers(2, 4, high=9, dtype="int32")}, grads=False),
)
