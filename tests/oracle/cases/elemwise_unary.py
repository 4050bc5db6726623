"""Elementwise functions of one array."""

from __future__ import annotations

from oracle.case import Case, Spec, integers, normal, permutation, positive, uniform, values

_ANYWHERE = (
    "relu",
    "sigmoid",
    "tanh",
    "softsign",
    "exp",
    "expm1",
    "square",
    "negative",
    "sin",
    "cos",
    "arctan",
    "sinh",
    "cosh",
    "arcsinh",
    "degrees",
    "radians",
    "erf",
    "_npx_relu",
    "_npx_sigmoid",
)
_POSITIVE = (
    "log",
    "log2",
    "log10",
    "sqrt",
    "rsqrt",
    "gamma",
    "gammaln",
)
_NOT_ZERO = ("abs", "cbrt", "rcbrt", "reciprocal")
_STEPS = ("sign", "round", "rint", "ceil", "floor", "trunc", "fix")
_LIKE = ("zeros_like", "ones_like", "logical_not")
_HALVES = values([[-2.5, -1.5, -0.5, -0.25], [0.5, 1.5, 2.5, 0.49999997], [0.0, -0.0, 7.0, -3.75]])
_TWO_DTYPES = ("float64", "float16")
_SINGLE_CONSTANTS = ("degrees", "radians", "erf", "erfinv", "gamma", "gammaln")
"""Functions that MXNet computes with float32 constants whatever the dtype."""
_COARSE = {
    **dict.fromkeys(((op, "float64") for op in _SINGLE_CONSTANTS), 1e-6),
    # The square of an output near 1, rounded to half precision, is subtracted from 1.
    ("tanh", "float16"): 3e-2,
}
"""Tolerances, by operator and dtype."""


def _domain(op: str, dtype: str = "float32") -> Spec:
    if op in _POSITIVE:
        return positive(3, 5, dtype=dtype)
    if op in _NOT_ZERO:
        return permutation(3, 5, step=0.3, dtype=dtype)
    if op == "log1p":
        return uniform(3, 5, low=-0.75, high=2.0, dtype=dtype)
    if op == "arccosh":
        return uniform(3, 5, low=1.2, high=4.0, dtype=dtype)
    if op in ("arcsin", "arccos", "arctanh", "erfinv", "tan"):
        return uniform(3, 5, low=-0.9, high=0.9, dtype=dtype)
    return normal(3, 5, scale=2.0, dtype=dtype)


_SMOOTH = (
    *_ANYWHERE,
    *_POSITIVE,
    *_NOT_ZERO,
    "log1p",
    "arccosh",
    "arcsin",
    "arccos",
    "arctanh",
    "erfinv",
    "tan",
)

_INFINITY = float("inf")
_EDGES = [_INFINITY, -_INFINITY, float("nan"), -0.0, -0.3, 0.3, 2.5, -2.5, 8388609.0, 1e30]

CASES = (
    *(Case(op, op, {}, {"data": _domain(op)}) for op in _SMOOTH),
    *(
        Case(
            f"{op}_{dtype}",
            op,
            {},
            {"data": _domain(op, dtype)},
            tolerance=_COARSE.get((op, dtype)),
        )
        for op in (*_SMOOTH, *_LIKE)
        for dtype in _TWO_DTYPES
        # MXNet computes gamma's derivative, and the inverse error function, in half precision.
        if not (op in ("gamma", "gammaln", "erfinv") and dtype == "float16")
    ),
    *(Case(op, op, {}, {"data": _HALVES}, numeric=False) for op in (*_STEPS, *_LIKE)),
    *(
        Case(
            f"{op}_int32",
            op,
            {},
            {"data": integers(3, 4, low=1, high=6, dtype="int32")},
            train=False,
        )
        for op in ("relu", "square", "abs", "sign", "negative", "exp", "sqrt", "logical_not")
    ),
    *(
        Case(f"{op}_special", op, {}, {"data": values([float("nan"), 0.0, 3.0])}, train=False)
        for op in ("relu", "sign", "abs", "logical_not", "round", "sigmoid")
    ),
    *(
        Case(
            f"{op}_nan_gradient",
            op,
            {},
            {"data": values([[float("nan"), -2.0, 0.0, 3.0, _INFINITY, -_INFINITY]])},
            numeric=False,
        )
        for op in ("relu", "abs")
    ),
    *(
        Case(
            f"{op}_int32_gradient",
            op,
            {},
            {"data": integers(3, 4, low=1, high=6, dtype="int32")},
            numeric=False,
        )
        for op in ("square", "abs", "exp", "sqrt", "cosh", "reciprocal", "erf", "degrees")
    ),
    Case(
        "gamma_int32",
        "gamma",
        {},
        {"data": integers(9, low=1, high=12, dtype="int32")},
        train=False,
    ),
    *(
        Case(f"{op}_edge", op, {}, {"data": values(_EDGES)}, train=False)
        for op in ("round", "rint", "ceil", "floor", "trunc", "fix")
    ),
    Case("sigmoid_far", "sigmoid", {}, {"data": values([-90.0, -20.0, 20.0, 90.0])}, numeric=False),
    Case("gamma_negative", "gamma", {}, {"data": values([-1.5, -2.7, -0.3, 0.0])}, train=False),
    Case("gammaln_negative", "gammaln", {}, {"data": values([-1.5, -2.7, 0.0, 40.0])}, train=False),
    Case("erf_far", "erf", {}, {"data": values([-7.0, -0.469, 0.46875, 4.0, 6.5])}),
    Case("erfinv_edge", "erfinv", {}, {"data": values([-1.0, 0.0, 0.99999, 1.0])}, train=False),
)
