"""Sorting."""

from __future__ import annotations

from oracle.case import Case, integers, permutation

CASES = (
    *(
        Case(
            f"topk_{kind}",
            "topk",
            {"k": 2, "ret_typ": kind},
            {"data": permutation(3, 5)},
            grads=kind in ("value", "both"),
            numeric=kind == "value",
        )
        for kind in ("indices", "value", "both", "mask")
    ),
    Case("topk_default", "topk", {}, {"data": permutation(3, 5)}, grads=False),
    Case(
        "topk_first_axis",
        "topk",
        {"k": 2, "axis": 0, "ret_typ": "both"},
        {"data": permutation(3, 4)},
        numeric=False,
    ),
    Case(
        "topk_middle",
        "topk",
        {"k": 2, "axis": 1, "ret_typ": "value"},
        {"data": permutation(2, 3, 4)},
    ),
    Case(
        "topk_flat",
        "topk",
        {"k": 3, "axis": None, "ret_typ": "both"},
        {"data": permutation(2, 4)},
        numeric=False,
    ),
    Case(
        "topk_flat_mask",
        "topk",
        {"k": 3, "axis": None, "ret_typ": "mask"},
        {"data": permutation(2, 4)},
        grads=False,
    ),
    Case(
        "topk_all",
        "topk",
        {"k": 0, "ret_typ": "both"},
        {"data": integers(3, 6, high=3)},
        grads=False,
    ),
    Case(
        "topk_ascend",
        "topk",
        {"k": 2, "is_ascend": True, "ret_typ": "both"},
        {"data": permutation(3, 4)},
        grads=False,
    ),
    Case(
        "topk_int32", "topk", {"k": 2, "dtype": "int32"}, {"data": permutation(3, 4)}, grads=False
    ),
    Case(
        "topk_mask_axis",
        "topk",
        {"k": 2, "axis": 0, "ret_typ": "mask"},
        {"data": permutation(3, 4)},
        grads=False,
    ),
    Case("sort", "sort", {"axis": -1, "is_ascend": True}, {"data": permutation(3, 4)}),
    Case("sort_descend", "sort", {"axis": 0, "is_ascend": False}, {"data": permutation(3, 4)}),
    Case("sort_flat", "sort", {"axis": None, "is_ascend": True}, {"data": permutation(3, 4)}),
    Case("argsort", "argsort", {}, {"data": permutation(3, 4)}, grads=False),
    Case(
        "argsort_descend",
        "argsort",
        {"axis": 1, "is_ascend": False},
        {"data": integers(3, 6, high=3)},
        grads=False,
    ),
    Case(
        "argsort_flat",
        "argsort",
        {"axis": None, "dtype": "int32"},
        {"data": permutation(3, 4)},
        grads=False,
    ),
    Case("argsort_gradient", "argsort", {}, {"data": permutation(3, 4)}, numeric=False),
)
