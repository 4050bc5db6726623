"""softmax, log_softmax and softmin."""

from __future__ import annotations

from oracle.case import Case, normal, values

_NAMES = ("softmax", "log_softmax", "softmin")

CASES = (
    # Terms cancel along rows to far less than other elements of the row; not so along columns.
    Case("softmax_last", "softmax", {}, {"data": normal(3, 7, scale=3.0)}, tolerance=1e-4),
    *(Case(f"{op}_last", op, {}, {"data": normal(3, 7, scale=3.0)}) for op in _NAMES[1:]),
    *(Case(f"{op}_axis", op, {"axis": 1}, {"data": (2, 4, 3)}) for op in _NAMES),
    *(Case(f"{op}_first_axis", op, {"axis": -3}, {"data": (2, 4, 3)}) for op in _NAMES),
    *(Case(f"{op}_cold", op, {"temperature": 0.25}, {"data": (3, 5)}) for op in _NAMES),
    *(Case(f"{op}_hot", op, {"temperature": 8.0, "axis": 0}, {"data": (3, 5)}) for op in _NAMES),
    *(Case(f"{op}_one_axis", op, {}, {"data": (6,)}) for op in _NAMES),
    *(Case(f"{op}_large", op, {}, {"data": normal(3, 5, scale=100.0)}) for op in _NAMES),
    *(Case(f"{op}_inference", op, {}, {"data": (3, 5)}, train=False) for op in _NAMES),
    *(
        Case(f"{op}_float64", op, {"temperature": 2.0}, {"data": normal(3, 5, dtype="float64")})
        for op in _NAMES
    ),
    *(Case(f"{op}_float16", op, {}, {"data": normal(3, 5, dtype="float16")}) for op in _NAMES),
    # MXNet computes in data's dtype, and casts the result.
    *(
        Case(f"{op}_to_float64", op, {"dtype": "float64"}, {"data": (3, 5)}, tolerance=1e-6)
        for op in _NAMES
    ),
    *(
        Case(
            f"{op}_float16_to_float32",
            op,
            {"dtype": "float32"},
            {"data": normal(3, 5, dtype="float16")},
            numeric=False,
            tolerance=2e-3,
        )
        for op in _NAMES
    ),
    Case(
        "length",
        "softmax",
        {"use_length": True},
        {"data": (4, 5), "length": values([0, 1, 3, 5], "int32")},
    ),
    Case(
        "length_axis",
        "softmax",
        {"use_length": True, "axis": 1, "temperature": 0.5},
        {"data": (2, 4, 3), "length": values([[4, 1, 2], [0, 3, 4]], "int32")},
    ),
    Case(
        "length_int64",
        "softmax",
        {"use_length": True},
        {"data": normal(2, 2, 3, dtype="float64"), "length": values([[3, 1], [2, 2]], "int64")},
    ),
)
