"""Reshaping, with codes and attributes found in published graphs."""

from __future__ import annotations

from oracle.case import Case, normal, zeros

_CODES = (
    ("plain", (4, 6), (2, 3, 4)),
    ("copy", (0, 0), (3, 4)),
    ("infer", (-1, 4), (2, 3, 4)),
    ("infer_middle", (2, -1, 2), (2, 3, 4)),
    ("infer_then_copy", (-1, 0, 0), (2, 3, 4)),
    ("to_maps", (-1, 4, 1, 1), (2, 4)),
    ("rest", (-2, 1, 1), (2, 3)),
    ("merge", (0, -3, -2), (2, 3, 4, 5)),
    ("merge_end", (-3, -3), (2, 3, 4, 5)),
    ("split", (0, -4, 2, -1, -2), (3, 8, 2, 2)),
    ("split_left", (-4, -1, 2, 0), (6, 5)),
    ("split_both", (0, -4, 2, 3), (2, 6)),
    ("skip", (2, 0, -1), (4, 3, 2)),
)

CASES = (
    *(Case(name, "Reshape", {"shape": shape}, {"data": data}) for name, shape, data in _CODES),
    Case("reverse", "Reshape", {"shape": (-1, 0), "reverse": True}, {"data": (5, 2, 4)}),
    Case("reverse_two", "Reshape", {"shape": (-1, 0, 0), "reverse": True}, {"data": (3, 5, 2, 4)}),
    Case("forward_two", "Reshape", {"shape": (-1, 0, 0)}, {"data": (4, 2, 3)}),
    Case(
        "reverse_minus_three", "Reshape", {"shape": (0, -3), "reverse": True}, {"data": (2, 3, 4)}
    ),
    Case("target", "Reshape", {"target_shape": (2, 0)}, {"data": (4, 5, 2)}),
    Case("target_all", "Reshape", {"target_shape": (0,)}, {"data": (4, 5, 2)}),
    Case(
        "target_keep",
        "Reshape",
        {"target_shape": (0, 0), "keep_highest": True},
        {"data": (4, 5, 2)},
    ),
    Case(
        "target_keep_all",
        "Reshape",
        {"target_shape": (9, 3, 2), "keep_highest": True},
        {"data": (4, 3, 2)},
    ),
    Case("shape_wins", "Reshape", {"shape": (2, 6), "target_shape": (0,)}, {"data": (3, 4)}),
    Case("alias_float64", "reshape", {"shape": (-1,)}, {"data": normal(2, 3, dtype="float64")}),
    Case("np_reshape", "_np_reshape", {"newshape": (-1, 6)}, {"a": (2, 3, 4)}),
    Case("flatten", "Flatten", {}, {"data": (2, 3, 4, 5)}),
    Case("flatten_matrix", "Flatten", {}, {"data": (2, 3)}),
    Case("flatten_vector", "Flatten", {}, {"data": (4,)}),
    *(
        Case(f"expand_dims_{axis}", "expand_dims", {"axis": axis}, {"data": (2, 3)})
        for axis in (0, 1, 2, -1, -2, -3)
    ),
    Case("squeeze", "squeeze", {}, {"data": (1, 4, 1, 2)}),
    Case("squeeze_axis", "squeeze", {"axis": 1}, {"data": (1, 1, 2)}),
    Case("squeeze_last", "squeeze", {"axis": -1}, {"data": (1, 3, 1)}),
    Case("squeeze_axes", "squeeze", {"axis": (2, 3, 4)}, {"data": (2, 3, 1, 1, 1)}),
    Case("squeeze_all", "squeeze", {}, {"data": (1, 1)}),
    Case("squeeze_all_axes", "squeeze", {"axis": (0, 1)}, {"data": (1, 1)}),
    Case("like", "reshape_like", {}, {"lhs": (6,), "rhs": (2, 3)}, grads=("lhs",)),
    Case(
        "like_integers",
        "reshape_like",
        {},
        {"lhs": (6,), "rhs": zeros(2, 3, dtype="int32")},
        grads=("lhs",),
    ),
    Case(
        "like_range",
        "reshape_like",
        {"lhs_begin": 0, "lhs_end": 2, "rhs_begin": 1, "rhs_end": 2},
        {"lhs": (2, 3, 5), "rhs": (4, 6, 7)},
        grads=("lhs",),
    ),
    Case(
        "like_negative",
        "reshape_like",
        {"lhs_begin": -1, "lhs_end": None, "rhs_begin": 1, "rhs_end": 3},
        {"lhs": (2, 6), "rhs": (4, 2, 3)},
        grads=("lhs",),
    ),
)
