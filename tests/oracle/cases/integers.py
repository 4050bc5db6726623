"""Integers in operators whose exact results are fractions, which MXNet truncates, like the
derivatives."""

from __future__ import annotations

from oracle.case import Case, Spec, integers, values

_DTYPES = ("int32", "int64", "int8", "uint8")
_SMALL = ("int32", "uint8")


def _data(dtype: str) -> Spec:
    return values([[1, 2, 3], [4, 5, 6]], dtype=dtype)


def _row(dtype: str) -> Spec:
    return values([[3, 2, 4]], dtype=dtype)


def _same(dtype: str) -> Spec:
    return values([[3, 2, 4], [1, 2, 7]], dtype=dtype)


CASES = (
    *(
        Case(f"normalize_{dtype}", "_image_normalize", attrs, {"data": images}, numeric=False)
        for dtype in _DTYPES
        for attrs, images in (
            (
                {"mean": (1, 2, 3), "std": (2, 3, 2)},
                integers(3, 4, 5, low=0, high=9, dtype=dtype),
            ),
        )
    ),
    *(
        Case(f"{op}_{name}_{dtype}", op, attrs, {"data": _data(dtype)}, numeric=False)
        for op, name, attrs in (
            ("moments", "rows", {"axes": (0,)}),
            ("moments", "all", {"axes": (0, 1)}),
            ("nanprod", "axis", {"axis": 1}),
            ("smooth_l1", "one", {"scalar": 1}),
            ("smooth_l1", "two", {"scalar": 2}),
            ("_contrib_quadratic", "whole", {"a": 1, "b": 2, "c": 3}),
            ("_contrib_quadratic", "broken", {"a": 0.5, "b": 1.5, "c": -3.7}),
            ("_contrib_round_ste", "", {}),
            ("_contrib_div_sqrt_dim", "", {}),
            ("_contrib_gradientmultiplier", "half", {"scalar": 0.5}),
            ("_contrib_gradientmultiplier", "two", {"scalar": 2}),
            ("_power_scalar", "inverse", {"scalar": -1}),
            ("_power_scalar", "inverse_square", {"scalar": -2}),
            ("_power_scalar", "cube", {"scalar": 3}),
            ("_rpower_scalar", "two", {"scalar": 2}),
            ("_div_scalar", "two", {"scalar": 2}),
            ("_div_scalar", "seven", {"scalar": 7}),
            ("_rdiv_scalar", "seven", {"scalar": 7}),
            ("_mod_scalar", "two", {"scalar": 2}),
            ("_rmod_scalar", "seven", {"scalar": 7}),
            ("_hypot_scalar", "three", {"scalar": 3}),
        )
        for dtype in _SMALL
    ),
    *(
        Case(f"{op}_{dtype}", op, {}, {"lhs": _data(dtype), "rhs": other(dtype)}, numeric=False)
        for op, other in (
            ("broadcast_power", _row),
            ("broadcast_mod", _row),
            ("broadcast_div", _row),
            ("broadcast_hypot", _row),
            ("_power", _same),
            ("_mod", _same),
            ("elemwise_div", _same),
            ("_hypot", _same),
        )
        for dtype in _SMALL
    ),
    Case(
        "power_of_negative",
        "broadcast_power",
        {},
        {"lhs": _data("int32"), "rhs": values([[-1, 2, -2]], dtype="int32")},
        numeric=False,
    ),
)
