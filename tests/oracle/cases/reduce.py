"""Reductions."""

from __future__ import annotations

from oracle.case import Case, integers, normal, permutation, positive, values

_KINDS = ("sum", "mean", "prod", "nansum", "nanprod", "max", "min")
_AXES = (
    ("all", {}),
    ("one", {"axis": 1}),
    ("last", {"axis": -1}),
    ("two", {"axis": (0, 2)}),
    ("kept", {"axis": 1, "keepdims": True}),
    ("all_kept", {"keepdims": True}),
    ("exclude", {"axis": 1, "exclude": True}),
    ("exclude_kept", {"axis": (0, -1), "exclude": True, "keepdims": True}),
)
_NAN = values([[1.0, float("nan"), 3.0], [4.0, 4.0, 2.0]])

CASES = (
    *(
        Case(f"{kind}_{name}", kind, attrs, {"data": permutation(2, 3, 2, step=0.4)})
        for kind in _KINDS
        for name, attrs in _AXES
    ),
    *(
        Case(f"{kind}_{dtype}", kind, {"axis": 1}, {"data": positive(3, 4, dtype=dtype)})
        for kind in _KINDS
        for dtype in ("float64", "float16")
    ),
    *(
        Case(
            f"{kind}_int32",
            kind,
            {"axis": 1},
            {"data": integers(3, 4, low=1, high=9, dtype="int32")},
            train=False,
        )
        for kind in ("sum", "prod", "max", "mean")
    ),
    *(
        Case(f"{kind}_nan", kind, {"axis": 1}, {"data": _NAN}, numeric=False)
        for kind in ("nansum", "nanprod", "sum", "max")
    ),
    *(
        Case(f"{kind}_ties", kind, {"axis": 1}, {"data": integers(3, 6, high=3)}, numeric=False)
        for kind in ("max", "min")
    ),
    Case("sum_vector", "sum", {"axis": 0}, {"data": (5,)}),
    Case("sum_alias", "sum_axis", {"axis": ()}, {"data": (2, 3)}),
    Case("prod_zero", "prod", {"axis": 1}, {"data": values([[0.0, 2.0], [3.0, 4.0]])}, train=False),
    Case("norm", "norm", {}, {"data": (2, 3)}),
    Case("norm_axis", "norm", {"axis": 1}, {"data": (2, 3, 4)}),
    Case("norm_kept", "norm", {"axis": (0, 2), "keepdims": True}, {"data": (2, 3, 4)}),
    Case("norm_one", "norm", {"ord": 1, "axis": 1}, {"data": (2, 3)}),
    Case(
        "norm_zero", "norm", {"axis": 1}, {"data": values([[0.0, 0.0], [3.0, 4.0]])}, numeric=False
    ),
    Case(
        "norm_out_dtype", "norm", {"axis": 1, "out_dtype": "float32"}, {"data": (2, 3)}, train=False
    ),
    *(
        Case(f"{kind}_{name}", kind, attrs, {"data": permutation(2, 3, 4)}, grads=False)
        for kind in ("argmax", "argmin")
        for name, attrs in _AXES
        if name in ("all", "one", "last", "kept", "all_kept")
    ),
    *(
        Case(
            f"{kind}_int32_gradient",
            kind,
            {"axis": 1},
            {"data": integers(5, 2, low=1, high=9, dtype="int32")},
            numeric=False,
        )
        for kind in ("mean", "prod")
    ),
    Case("argmax_first", "argmax", {"axis": 1}, {"data": integers(4, 6, high=2)}, grads=False),
    Case(
        "argmax_float16",
        "argmax",
        {"axis": 1},
        {"data": normal(4, 6, dtype="float16")},
        grads=False,
    ),
    Case("argmax_gradient", "argmax", {"axis": 1}, {"data": (4, 6)}, numeric=False),
    Case("argmax_channel", "argmax_channel", {}, {"data": (2, 3, 4)}, grads=False),
    Case("argmax_channel_matrix", "argmax_channel", {}, {"data": (2, 3)}, grads=False),
    Case("np_sum", "_np_sum", {"axis": 1, "keepdims": True}, {"a": (2, 3)}),
    Case("np_sum_axis", "_np_sum", {"axis": (0, 1)}, {"a": (2, 3, 4)}),
)
