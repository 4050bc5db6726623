"""Elementwise functions of ``contrib``."""

from __future__ import annotations

from oracle.case import Case, normal, permutation, values

_REVERSE = {"scalar": -0.5}
_NAN = values([1.0, float("nan"), -2.0])
_HALVES = values([-1.5, -0.5, 0.5, 2.5])

CASES = (
    Case("close", "_contrib_allclose", {}, {"a": _NAN, "b": _NAN}, grads=False),
    Case("nan", "_contrib_allclose", {"equal_nan": False}, {"a": _NAN, "b": _NAN}, grads=False),
    Case(
        "tolerances",
        "_contrib_allclose",
        {"rtol": 0.1, "atol": 0.05},
        {"a": values([1.0, 2.24, -3.0]), "b": values([1.1, 2.0, -3.3])},
        grads=False,
    ),
    Case(
        "far",
        "_contrib_allclose",
        {"rtol": 0.1},
        {"a": values([1.0, 2.24]), "b": values([1.1, 2.0])},
        grads=False,
    ),
    Case("reverse", "_contrib_gradientmultiplier", _REVERSE, {"data": (2, 3)}, numeric=False),
    Case("quadratic", "_contrib_quadratic", {"a": 0.5, "b": -2.0, "c": 3.0}, {"data": (2, 3)}),
    Case("quadratic_defaults", "_contrib_quadratic", {"b": 1.0}, {"data": (2, 3)}),
    Case("round", "_contrib_round_ste", {}, {"data": normal(3, 4, scale=3.0)}, numeric=False),
    Case("halves", "_contrib_round_ste", {}, {"data": _HALVES}, numeric=False),
    Case("sign", "_contrib_sign_ste", {}, {"data": permutation(2, 3)}, numeric=False),
    Case("sign_zero", "_contrib_sign_ste", {}, {"data": values([-1.0, 0.0, 2.0])}, numeric=False),
)
