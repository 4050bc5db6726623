"""Broadcasting operators."""

from __future__ import annotations

from oracle.case import Case, normal, zeros

CASES = (
    Case("axis", "broadcast_axis", {"axis": 1, "size": 12}, {"data": (2, 1, 3)}),
    Case("axes", "broadcast_axes", {"axis": (0, 2), "size": (3, 2)}, {"data": (1, 2, 1)}),
    Case("axis_none", "broadcast_axis", {}, {"data": (2, 3)}),
    Case("to", "broadcast_to", {"shape": (0, 8, 0)}, {"data": (2, 1, 3)}),
    Case("to_all", "broadcast_to", {"shape": (2, 3, 4)}, {"data": (1, 1, 1)}),
    Case("to_same", "broadcast_to", {"shape": (2, 3)}, {"data": (2, 3)}),
    Case(
        "to_float16",
        "broadcast_to",
        {"shape": (5, 3)},
        {"data": normal(1, 3, dtype="float16")},
        tolerance=4e-3,  # MXNet rounds each partial sum of the five.
    ),
    Case("to_float64", "broadcast_to", {"shape": (5, 3)}, {"data": normal(5, 1, dtype="float64")}),
    Case("like", "broadcast_like", {}, {"lhs": (1, 3), "rhs": (4, 3)}, grads=("lhs",)),
    Case(
        "like_integers",
        "broadcast_like",
        {},
        {"lhs": (1, 3), "rhs": zeros(2, 3, dtype="int32")},
        grads=("lhs",),
    ),
    Case(
        "like_axes",
        "broadcast_like",
        {"lhs_axes": (0,), "rhs_axes": (-1,)},
        {"lhs": (1, 3), "rhs": (4, 7)},
        grads=("lhs",),
    ),
)
