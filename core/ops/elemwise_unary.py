"""The table of elementwise functions of one array.

A function writes ``f(source)`` into ``out``, which may be ``source`` itself. A slope returns the
derivative, as an array of its own or as a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from ..types import Array, is_floating, is_half
from . import special
from .operator import Run

__all__ = ["UNARY", "UnaryRow", "sigmoid"]

Function: TypeAlias = Callable[[Run, Array, Array], None]
Slope: TypeAlias = Callable[[Run, Array], Array]


class UnaryRow(NamedTuple):
    """One function.

    Attributes:
        names: MXNet's name, then its aliases.
        doc: what it computes.
        function: writes the function's value.
        slope: the derivative, a constant, or None where the gradient is 0.
        slope_of: whether the slope is computed from the input or from the output.
        keeps_integers: whether whole numbers are given to the function as they are; elsewhere they
            pass through float64.
        keeps_zeros: whether 0 gives 0, so that a sparse array gives a sparse one.
    """

    names: tuple[str, ...]
    doc: str
    function: Function
    slope: Slope | float | None = None
    slope_of: Literal["input", "output"] = "input"
    keeps_integers: bool = False
    keeps_zeros: bool = False


def _like(run: Run, x: Array) -> Array:
    return run.scratch(x.shape, x.dtype)


def _ufunc(name: str) -> Function:
    """The function that ``xp`` has under this name."""

    def apply(run: Run, x: Array, out: Array) -> None:
        getattr(run.xp, name)(x, out=out)

    return apply


def _exp(run: Run, x: Array, out: Array) -> None:
    """exp to the nearest number, as MXNet has it: NumPy's own of float32 is up to 2.5 ulp off."""
    if run.xp is np and out.dtype == np.float32:
        np.exp(x, out=out, dtype=np.float64, casting="same_kind")
    else:
        run.xp.exp(x, out=out)


def _times(factor: float) -> Function:
    def apply(run: Run, x: Array, out: Array) -> None:
        run.xp.multiply(x, factor, out=out)

    return apply


def _plus(term: float) -> Function:
    def apply(run: Run, x: Array, out: Array) -> None:
        run.xp.add(x, term, out=out)

    return apply


def _fill(value: int) -> Function:
    def apply(run: Run, x: Array, out: Array) -> None:
        out.fill(value)

    return apply


def _chain(*functions: Function) -> Function:
    """Functions applied one after the other."""

    def apply(run: Run, x: Array, out: Array) -> None:
        for function in functions:
            function(run, x, out)
            x = out

    return apply


def _slope(*functions: Function) -> Slope:
    """A slope that is a chain of functions of its source."""
    function = _chain(*functions)

    def slope(run: Run, source: Array) -> Array:
        factor = _like(run, source)
        function(run, source, factor)
        return factor

    return slope


_square, _sqrt, _cbrt, _inverse, _negative = map(
    _ufunc, ("square", "sqrt", "cbrt", "reciprocal", "negative")
)


def sigmoid(run: Run, x: Array, out: Array) -> None:
    """Write 1 / (1 + exp(-x)); small values keep their relative precision."""
    y = run.scratch(x.shape) if is_half(out.dtype) else out
    run.xp.negative(x, out=y)
    run.xp.exp(y, out=y)
    y += 1
    run.xp.reciprocal(y, out=y)
    if y is not out:
        run.xp.copyto(out, y)


def _sigmoid_slope(run: Run, y: Array) -> Array:
    factor = _like(run, y)
    run.xp.subtract(1, y, out=factor)
    factor *= y
    return factor


def _relu(run: Run, x: Array, out: Array) -> None:
    if x.dtype.kind == "f":
        # With two bounds, NumPy is six times as fast as maximum with a number.
        run.xp.clip(x, 0, run.xp.inf, out=out)
    else:
        run.xp.maximum(x, 0, out=out)


def _relu_slope(run: Run, y: Array) -> Array:
    """Return 1 where y is positive, 0 where it is 0, and NaN for NaN, as MXNet."""
    slope = _like(run, y)
    run.xp.sign(y, out=slope)
    return slope


def _softsign(run: Run, x: Array, out: Array) -> None:
    size = _like(run, x)
    run.xp.abs(x, out=size)
    size += 1
    run.xp.divide(x, size, out=out)


def _sign(run: Run, x: Array, out: Array) -> None:
    """The sign, with MXNet's 0 for NaN."""
    if not is_floating(x.dtype):
        run.xp.sign(x, out=out)
        return
    is_nan = run.scratch(x.shape, "bool")
    run.xp.isnan(x, out=is_nan)
    run.xp.sign(x, out=out)
    run.xp.copyto(out, 0, where=is_nan)


def _round(run: Run, x: Array, out: Array) -> None:
    """Round half away from zero. Every step is exact; 0 keeps its sign."""
    whole, half = _like(run, x), _like(run, x)
    run.xp.trunc(x, out=whole)
    run.xp.subtract(x, whole, out=half)
    half *= 2
    run.xp.trunc(half, out=half)
    whole += half
    if is_floating(x.dtype):
        run.xp.copysign(whole, x, out=whole)
    run.xp.copyto(out, whole)


def _rint(run: Run, x: Array, out: Array) -> None:
    """Round half towards minus infinity, as MXNet does. Every step is exact."""
    whole = _like(run, x)
    run.xp.floor(x, out=whole)
    run.xp.subtract(x, whole, out=out)
    out -= 0.5
    run.xp.ceil(out, out=out)
    out += whole


def _logical_not(run: Run, x: Array, out: Array) -> None:
    run.xp.equal(x, 0, out=out, casting="unsafe")


def _gamma_slope(run: Run, x: Array) -> Array:
    factor, value = _like(run, x), _like(run, x)
    special.digamma(run, x, factor)
    special.gamma(run, x, value)
    factor *= value
    return factor


def _rsqrt_slope(run: Run, x: Array) -> Array:
    factor = _like(run, x)
    run.xp.sqrt(x, out=factor)
    factor *= x
    run.xp.divide(-0.5, factor, out=factor)
    return factor


def _rcbrt_slope(run: Run, x: Array) -> Array:
    factor = _like(run, x)
    run.xp.cbrt(x, out=factor)
    factor *= x
    run.xp.divide(-1 / 3, factor, out=factor)
    return factor


_TO_DEGREES, _TO_RADIANS = 180 / math.pi, math.pi / 180
_UNDER_ROOT = (_square, _negative, _plus(1), _sqrt, _inverse)

UNARY = (
    UnaryRow(
        ("relu", "_sparse_relu"),
        "max(x, 0).",
        _relu,
        _relu_slope,
        "output",
        keeps_integers=True,
        keeps_zeros=True,
    ),
    UnaryRow(
        ("sigmoid", "_sparse_sigmoid"), "1 / (1 + exp(-x)).", sigmoid, _sigmoid_slope, "output"
    ),
    UnaryRow(
        ("tanh", "_sparse_tanh"),
        "Hyperbolic tangent.",
        _ufunc("tanh"),
        _slope(_square, _negative, _plus(1)),
        "output",
        keeps_zeros=True,
    ),
    UnaryRow(
        ("softsign",),
        "x / (1 + |x|).",
        _softsign,
        _slope(_ufunc("abs"), _plus(1), _square, _inverse),
    ),
    UnaryRow(("exp", "_sparse_exp"), "Exponential.", _exp, lambda run, y: y, "output"),
    UnaryRow(
        ("expm1", "_sparse_expm1"),
        "exp(x) - 1.",
        _ufunc("expm1"),
        _slope(_ufunc("exp")),
        keeps_zeros=True,
    ),
    UnaryRow(("log", "_sparse_log"), "Natural logarithm.", _ufunc("log"), _slope(_inverse)),
    UnaryRow(
        ("log2", "_sparse_log2"),
        "Logarithm to base 2.",
        _ufunc("log2"),
        _slope(_inverse, _times(1 / math.log(2))),
    ),
    UnaryRow(
        ("log10", "_sparse_log10"),
        "Logarithm to base 10.",
        _ufunc("log10"),
        _slope(_inverse, _times(1 / math.log(10))),
    ),
    UnaryRow(
        ("log1p", "_sparse_log1p"),
        "log(1 + x).",
        _ufunc("log1p"),
        _slope(_plus(1), _inverse),
        keeps_zeros=True,
    ),
    UnaryRow(
        ("sqrt", "_sparse_sqrt"),
        "Square root.",
        _sqrt,
        _slope(_inverse, _times(0.5)),
        "output",
        keeps_zeros=True,
    ),
    UnaryRow(("rsqrt", "_sparse_rsqrt"), "1 / sqrt(x).", _chain(_sqrt, _inverse), _rsqrt_slope),
    UnaryRow(
        ("cbrt", "_sparse_cbrt"),
        "Cube root.",
        _cbrt,
        _slope(_square, _inverse, _times(1 / 3)),
        "output",
        keeps_zeros=True,
    ),
    UnaryRow(("rcbrt",), "1 / cbrt(x).", _chain(_cbrt, _inverse), _rcbrt_slope),
    UnaryRow(
        ("square", "_sparse_square"),
        "x * x.",
        _square,
        _slope(_times(2.0)),
        keeps_integers=True,
        keeps_zeros=True,
    ),
    UnaryRow(("reciprocal",), "1 / x.", _inverse, _slope(_square, _inverse, _negative)),
    UnaryRow(
        ("abs", "_sparse_abs"),
        "|x|.",
        _ufunc("abs"),
        _slope(_sign),
        keeps_integers=True,
        keeps_zeros=True,
    ),
    UnaryRow(("sign", "_sparse_sign"), "-1, 0 or 1.", _sign, keeps_integers=True, keeps_zeros=True),
    UnaryRow(
        ("negative", "_sparse_negative"),
        "-x.",
        _negative,
        -1.0,
        keeps_integers=True,
        keeps_zeros=True,
    ),
    UnaryRow(
        ("round", "_sparse_round"),
        "Nearest whole number, half away from 0.",
        _round,
        keeps_zeros=True,
    ),
    UnaryRow(
        ("rint", "_sparse_rint"), "Nearest whole number, half downwards.", _rint, keeps_zeros=True
    ),
    UnaryRow(
        ("ceil", "_sparse_ceil"), "Next whole number upwards.", _ufunc("ceil"), keeps_zeros=True
    ),
    UnaryRow(
        ("floor", "_sparse_floor"),
        "Next whole number downwards.",
        _ufunc("floor"),
        keeps_zeros=True,
    ),
    UnaryRow(
        ("trunc", "_sparse_trunc"),
        "Next whole number towards 0.",
        _ufunc("trunc"),
        keeps_zeros=True,
    ),
    UnaryRow(
        ("fix", "_sparse_fix"), "Next whole number towards 0.", _ufunc("trunc"), keeps_zeros=True
    ),
    UnaryRow(
        ("sin", "_sparse_sin"), "Sine.", _ufunc("sin"), _slope(_ufunc("cos")), keeps_zeros=True
    ),
    UnaryRow(("cos", "_sparse_cos"), "Cosine.", _ufunc("cos"), _slope(_ufunc("sin"), _negative)),
    UnaryRow(
        ("tan", "_sparse_tan"),
        "Tangent.",
        _ufunc("tan"),
        _slope(_square, _plus(1)),
        "output",
        keeps_zeros=True,
    ),
    UnaryRow(
        ("arcsin", "_sparse_arcsin"),
        "Inverse sine.",
        _ufunc("arcsin"),
        _slope(*_UNDER_ROOT),
        keeps_zeros=True,
    ),
    UnaryRow(
        ("arccos", "_sparse_arccos"),
        "Inverse cosine.",
        _ufunc("arccos"),
        _slope(*_UNDER_ROOT, _negative),
    ),
    UnaryRow(
        ("arctan", "_sparse_arctan"),
        "Inverse tangent.",
        _ufunc("arctan"),
        _slope(_square, _plus(1), _inverse),
        keeps_zeros=True,
    ),
    UnaryRow(
        ("sinh", "_sparse_sinh"),
        "Hyperbolic sine.",
        _ufunc("sinh"),
        _slope(_ufunc("cosh")),
        keeps_zeros=True,
    ),
    UnaryRow(
        ("cosh", "_sparse_cosh"), "Hyperbolic cosine.", _ufunc("cosh"), _slope(_ufunc("sinh"))
    ),
    UnaryRow(
        ("arcsinh", "_sparse_arcsinh"),
        "Inverse hyperbolic sine.",
        _ufunc("arcsinh"),
        _slope(_square, _plus(1), _sqrt, _inverse),
        keeps_zeros=True,
    ),
    UnaryRow(
        ("arccosh", "_sparse_arccosh"),
        "Inverse hyperbolic cosine.",
        _ufunc("arccosh"),
        _slope(_square, _plus(-1), _sqrt, _inverse),
    ),
    UnaryRow(
        ("arctanh", "_sparse_arctanh"),
        "Inverse hyperbolic tangent.",
        _ufunc("arctanh"),
        _slope(_square, _negative, _plus(1), _inverse),
        keeps_zeros=True,
    ),
    UnaryRow(
        ("degrees", "_sparse_degrees"),
        "Radians to degrees.",
        _times(_TO_DEGREES),
        _TO_DEGREES,
        keeps_zeros=True,
    ),
    UnaryRow(
        ("radians", "_sparse_radians"),
        "Degrees to radians.",
        _times(_TO_RADIANS),
        _TO_RADIANS,
        keeps_zeros=True,
    ),
    UnaryRow(
        ("erf", "_npx_erf"),
        "Error function.",
        special.erf,
        _slope(_square, _negative, _ufunc("exp"), _times(2 / math.sqrt(math.pi))),
    ),
    UnaryRow(
        ("erfinv", "_npx_erfinv"),
        "Inverse error function.",
        special.erfinv,
        _slope(_square, _ufunc("exp"), _times(math.sqrt(math.pi) / 2)),
        "output",
    ),
    UnaryRow(("gamma", "_npx_gamma", "_sparse_gamma"), "Gamma.", special.gamma, _gamma_slope),
    UnaryRow(
        ("gammaln", "_npx_gammaln", "_sparse_gammaln"),
        "Logarithm of |gamma(x)|.",
        special.gammaln,
        _slope(special.digamma),
    ),
    UnaryRow(("logical_not",), "1 where x is 0, else 0.", _logical_not, keeps_integers=True),
    UnaryRow(("ones_like",), "Ones of the shape and dtype of x.", _fill(1), keeps_integers=True),
    UnaryRow(
        ("zeros_like", "_sparse_zeros_like"),
        "Zeros of the shape and dtype of x.",
        _fill(0),
        keeps_integers=True,
        keeps_zeros=True,
    ),
    UnaryRow(("_npx_relu",), "max(x, 0).", _relu, _relu_slope, "output", keeps_integers=True),
    UnaryRow(("_npx_sigmoid",), "1 / (1 + exp(-x)).", sigmoid, _sigmoid_slope, "output"),
)
"""Every function of one array. Rows of ``mx.npx`` keep their own names, as MXNet's JSON does."""
