"""``where`` and diagonals."""

from __future__ import annotations

from oracle.case import Case, integers, normal

CASES = (
    Case(
        "where",
        "where",
        {},
        {"condition": integers(3, 4, low=-1, high=2), "x": (3, 4), "y": (3, 4)},
        grads=("x", "y"),
    ),
    Case(
        "where_rows",
        "where",
        {},
        {"condition": integers(3, high=2), "x": (3, 2, 2), "y": (3, 2, 2)},
        grads=("x", "y"),
    ),
    Case(
        "where_int",
        "where",
        {},
        {
            "condition": integers(6, high=2, dtype="int32"),
            "x": normal(6, dtype="float64"),
            "y": normal(6, dtype="float64"),
        },
        grads=("x", "y"),
    ),
    *(Case(f"diag_vector_{k}", "diag", {"k": k}, {"data": (3,)}) for k in (0, 1, -2)),
    *(Case(f"diag_matrix_{k}", "diag", {"k": k}, {"data": (3, 4)}) for k in (0, 1, 3, -1, -2)),
    Case("diag_axes", "diag", {"axis1": -1, "axis2": 0}, {"data": (3, 4, 5)}),
    Case("diag_axes_k", "diag", {"k": 1, "axis1": 1, "axis2": 3}, {"data": (2, 3, 2, 3)}),
)
