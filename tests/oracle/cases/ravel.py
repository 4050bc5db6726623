"""ravel_multi_index and unravel_index."""

from __future__ import annotations

from oracle.case import Case, integers, values

CASES = (
    Case(
        "ravel", "_ravel_multi_index", {"shape": (7, 6)}, {"data": values([[3, 6, 6], [4, 5, 1]])}
    ),
    Case(
        "ravel_open",
        "ravel_multi_index",
        {"shape": (-1, 4, 5)},
        {"data": integers(3, 6, high=4, dtype="int64")},
        grads=False,
    ),
    Case("unravel", "_unravel_index", {"shape": (7, 6)}, {"data": values([22, 41, 37])}),
    Case(
        "unravel_open",
        "unravel_index",
        {"shape": (-1, 4, 5)},
        {"data": integers(6, high=80, dtype="int32")},
        grads=False,
    ),
)
