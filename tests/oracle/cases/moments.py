"""Mean and variance."""

from __future__ import annotations

from oracle.case import Case

CASES = (
    Case("last", "moments", {"axes": (1,)}, {"data": (3, 4)}),
    Case("two", "moments", {"axes": (0, 2)}, {"data": (3, 2, 4)}),
    Case("kept", "moments", {"axes": (0, 2), "keepdims": True}, {"data": (3, 2, 4)}),
    Case("all", "moments", {"axes": (0, 1)}, {"data": (3, 4)}),
)
