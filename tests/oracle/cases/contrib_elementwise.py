"""Elementwise functions of ``contrib``."""

from __future__ import annotations

from oracle.case import Case, normal, permutation, values

_REVERSE = {"scalar": -0.5}
_HALVES = values([-1.5, -0.5, 0.5, 2.5])

CASES = (
    Case("reverse", "_contrib_gradientmultiplier", _REVERSE, {"data": (2, 3)}, numeric=False),
    Case("quadratic", "_contrib_quadratic", {"a": 0.5, "b": -2.0, "c": 3.0}, {"data": (2, 3)}),
    Case("quadratic_defaults", "_contrib_quadratic", {"b": 1.0}, {"data": (2, 3)}),
    Case("round", "_contrib_round_ste", {}, {"data": normal(3, 4, scale=3.0)}, numeric=False),
    Case("halves", "_contrib_round_ste", {}, {"data": _HALVES}, numeric=False),
    Case("sign", "_contrib_sign_ste", {}, {"data": permutation(2, 3)}, numeric=False),
    Case("sign_zero", "_contrib_sign_ste", {}, {"data": values([-1.0, 0.0, 2.0])}, numeric=False),
)
