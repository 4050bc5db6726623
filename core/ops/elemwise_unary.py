"""The table of elementwise functions of one array.

A function writes ``f(source)`` into ``out``, which may be ``source`` itself. A slope returns the
derivative as a new array or a number.
"""

from __future__ import annotations

import math

import numpy as np

from ..capabilities.functions import Function as Known
from ..capabilities.functions import Pointwise
from ..types import Array, is_floating, is_half
from . import special
from .elemwise_trigonometric import TRIGONOMETRY
from .operator import Run
from .unary_row import (
    UnaryRow,
    cbrt,
    chain,
    fill,
    inverse,
    like,
    negative,
    plus,
    slope_by,
    sqrt,
    square,
    times,
    ufunc,
)

__all__ = ["UNARY", "round_half_away", "sigmoid", "sign"]


def _exp(run: Run, x: Array, out: Array) -> None:
    """Correctly rounded exp, like MXNet's. NumPy's float32 exp is off by up to 2.5 ulp."""
    if run.xp is np and out.dtype == np.float32:
        np.exp(x, out=out, dtype=np.float64, casting="same_kind")
    else:
        run.xp.exp(x, out=out)


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
    """Return ``y * (1 - y)``."""
    factor = like(run, y)
    run.xp.subtract(1, y, out=factor)
    factor *= y
    return factor


def _relu(run: Run, x: Array, out: Array) -> None:
    if x.dtype.kind == "f":
        # NumPy's clip with two bounds is six times as fast as its maximum with a number.
        run.xp.clip(x, 0, run.xp.inf, out=out)
    else:
        run.xp.maximum(x, 0, out=out)


def _relu_slope(run: Run, y: Array) -> Array:
    """Return 1 where y is positive, 0 where it is 0, and NaN where it is NaN, as MXNet does."""
    slope = like(run, y)
    run.xp.sign(y, out=slope)
    return slope


def _softsign(run: Run, x: Array, out: Array) -> None:
    size = like(run, x)
    run.xp.abs(x, out=size)
    size += 1
    run.xp.divide(x, size, out=out)


def sign(run: Run, x: Array, out: Array) -> None:
    """Write the sign; as in MXNet it is 0 for NaN."""
    if not is_floating(x.dtype):
        run.xp.sign(x, out=out)
        return
    is_nan = run.scratch(x.shape, "bool")
    run.xp.isnan(x, out=is_nan)
    run.xp.sign(x, out=out)
    run.xp.copyto(out, 0, where=is_nan)


def round_half_away(run: Run, x: Array, out: Array) -> None:
    """Round half away from zero. Every step is exact; 0 keeps its sign."""
    whole, half = like(run, x), like(run, x)
    is_infinite = run.scratch(x.shape, "bool")
    run.xp.trunc(x, out=whole)
    run.xp.subtract(x, whole, out=half)
    run.xp.isinf(x, out=is_infinite)
    run.xp.copyto(half, 0, where=is_infinite)
    half *= 2
    run.xp.trunc(half, out=half)
    whole += half
    if is_floating(x.dtype):
        run.xp.copysign(whole, x, out=whole)
    run.xp.copyto(out, whole)


def _rint(run: Run, x: Array, out: Array) -> None:
    """Round half towards minus infinity, as MXNet does. Every step is exact; 0 keeps its sign."""
    low, high, fraction = like(run, x), like(run, x), like(run, x)
    is_low = run.scratch(x.shape, "bool")
    run.xp.floor(x, out=low)
    run.xp.ceil(x, out=high)
    run.xp.subtract(x, low, out=fraction)
    run.xp.subtract(high, x, out=out)
    run.xp.less_equal(fraction, out, out=is_low)
    run.xp.copyto(out, high)
    run.xp.copyto(out, low, where=is_low)


def _logical_not(run: Run, x: Array, out: Array) -> None:
    run.xp.equal(x, 0, out=out, casting="unsafe")


def _gamma_slope(run: Run, x: Array) -> Array:
    """Return ``gamma(x) * digamma(x)``: digamma is the derivative of the logarithm."""
    factor, value = like(run, x), like(run, x)
    special.digamma(run, x, factor)
    special.gamma(run, x, value)
    factor *= value
    return factor


def _rsqrt_slope(run: Run, x: Array) -> Array:
    """Return ``-1/2 * x**(-3/2)``."""
    factor = like(run, x)
    run.xp.sqrt(x, out=factor)
    factor *= x
    run.xp.divide(-0.5, factor, out=factor)
    return factor


def _rcbrt_slope(run: Run, x: Array) -> Array:
    """Return ``-1/3 * x**(-4/3)``."""
    factor = like(run, x)
    run.xp.cbrt(x, out=factor)
    factor *= x
    run.xp.divide(-1 / 3, factor, out=factor)
    return factor


UNARY = (
    UnaryRow(
        ("relu", "_sparse_relu"),
        "max(x, 0).",
        _relu,
        _relu_slope,
        "output",
        keeps_integers=True,
        keeps_zeros=True,
        pointwise=Pointwise(Known.RELU),
        derivative=lambda f, x, y: y > 0,
    ),
    UnaryRow(
        ("sigmoid", "_sparse_sigmoid"),
        "1 / (1 + exp(-x)).",
        sigmoid,
        _sigmoid_slope,
        "output",
        pointwise=Pointwise(Known.SIGMOID),
        derivative=lambda f, x, y: y * (1 - y),
    ),
    UnaryRow(
        ("tanh", "_sparse_tanh"),
        "Hyperbolic tangent.",
        ufunc("tanh"),
        slope_by(square, negative, plus(1)),
        "output",
        keeps_zeros=True,
        pointwise=Pointwise(Known.TANH),
        derivative=lambda f, x, y: 1 - y * y,
    ),
    UnaryRow(
        ("softsign",),
        "x / (1 + |x|).",
        _softsign,
        slope_by(ufunc("abs"), plus(1), square, inverse),
        derivative=lambda f, x, y: 1 / f.square(1 + f.abs(x)),
    ),
    UnaryRow(
        ("exp", "_sparse_exp"),
        "Exponential.",
        _exp,
        lambda run, y: y,
        "output",
        derivative=lambda f, x, y: y,
        is_nonnegative=True,
    ),
    UnaryRow(
        ("expm1", "_sparse_expm1"),
        "exp(x) - 1.",
        ufunc("expm1"),
        slope_by(ufunc("exp")),
        keeps_zeros=True,
        derivative=lambda f, x, y: y + 1,
    ),
    UnaryRow(
        ("log", "_sparse_log"),
        "Natural logarithm.",
        ufunc("log"),
        slope_by(inverse),
        derivative=lambda f, x, y: 1 / x,
    ),
    UnaryRow(
        ("log2", "_sparse_log2"),
        "Logarithm to base 2.",
        ufunc("log2"),
        slope_by(inverse, times(1 / math.log(2))),
        derivative=lambda f, x, y: 1 / (math.log(2) * x),
    ),
    UnaryRow(
        ("log10", "_sparse_log10"),
        "Logarithm to base 10.",
        ufunc("log10"),
        slope_by(inverse, times(1 / math.log(10))),
        derivative=lambda f, x, y: 1 / (math.log(10) * x),
    ),
    UnaryRow(
        ("log1p", "_sparse_log1p"),
        "log(1 + x).",
        ufunc("log1p"),
        slope_by(plus(1), inverse),
        keeps_zeros=True,
        derivative=lambda f, x, y: 1 / (x + 1),
    ),
    UnaryRow(
        ("sqrt", "_sparse_sqrt"),
        "Square root.",
        sqrt,
        slope_by(inverse, times(0.5)),
        "output",
        keeps_zeros=True,
        pointwise=Pointwise(Known.SQUARE_ROOT),
        derivative=lambda f, x, y: 0.5 / y,
    ),
    UnaryRow(
        ("rsqrt", "_sparse_rsqrt"),
        "1 / sqrt(x).",
        chain(sqrt, inverse),
        _rsqrt_slope,
        derivative=lambda f, x, y: y / (-2 * x),
    ),
    UnaryRow(
        ("cbrt", "_sparse_cbrt"),
        "Cube root.",
        cbrt,
        slope_by(square, inverse, times(1 / 3)),
        "output",
        keeps_zeros=True,
        derivative=lambda f, x, y: 1 / (3 * y * y),
    ),
    UnaryRow(
        ("rcbrt",),
        "1 / cbrt(x).",
        chain(cbrt, inverse),
        _rcbrt_slope,
        derivative=lambda f, x, y: y / (-3 * x),
    ),
    UnaryRow(
        ("square", "_sparse_square"),
        "x * x.",
        square,
        slope_by(times(2.0)),
        keeps_integers=True,
        keeps_zeros=True,
        pointwise=Pointwise(Known.SQUARE),
        derivative=lambda f, x, y: 2 * x,
    ),
    UnaryRow(
        ("reciprocal",),
        "1 / x.",
        inverse,
        slope_by(square, inverse, negative),
        derivative=lambda f, x, y: -(y * y),
    ),
    UnaryRow(
        ("abs", "_sparse_abs"),
        "|x|.",
        ufunc("abs"),
        slope_by(sign),
        keeps_integers=True,
        keeps_zeros=True,
        pointwise=Pointwise(Known.ABSOLUTE),
        derivative=lambda f, x, y: f.sign(x),
    ),
    UnaryRow(("sign", "_sparse_sign"), "-1, 0 or 1.", sign, keeps_integers=True, keeps_zeros=True),
    UnaryRow(
        ("negative", "_sparse_negative"),
        "-x.",
        negative,
        -1.0,
        keeps_integers=True,
        keeps_zeros=True,
    ),
    UnaryRow(
        ("round", "_sparse_round"),
        "Nearest integer, halves away from 0.",
        round_half_away,
        keeps_zeros=True,
    ),
    UnaryRow(
        ("rint", "_sparse_rint"), "Nearest integer, halves downwards.", _rint, keeps_zeros=True
    ),
    UnaryRow(
        ("ceil", "_sparse_ceil"), "Smallest integer not below x.", ufunc("ceil"), keeps_zeros=True
    ),
    UnaryRow(
        ("floor", "_sparse_floor"),
        "Largest integer not above x.",
        ufunc("floor"),
        keeps_zeros=True,
    ),
    UnaryRow(
        ("trunc", "_sparse_trunc"),
        "x without its fractional part.",
        ufunc("trunc"),
        keeps_zeros=True,
    ),
    UnaryRow(
        ("fix", "_sparse_fix"), "x without its fractional part.", ufunc("trunc"), keeps_zeros=True
    ),
    *TRIGONOMETRY,
    UnaryRow(
        ("erf", "_npx_erf"),
        "Error function.",
        special.erf,
        slope_by(square, negative, ufunc("exp"), times(2 / math.sqrt(math.pi))),
        derivative=lambda f, x, y: 2 / math.sqrt(math.pi) * f.exp(-(x * x)),
    ),
    UnaryRow(
        ("erfinv", "_npx_erfinv"),
        "Inverse error function.",
        special.erfinv,
        slope_by(square, ufunc("exp"), times(math.sqrt(math.pi) / 2)),
        "output",
        pointwise=Pointwise(Known.INVERSE_ERF),
    ),
    UnaryRow(
        ("gamma", "_npx_gamma", "_sparse_gamma"),
        "Gamma.",
        special.gamma,
        _gamma_slope,
        pointwise=Pointwise(Known.GAMMA),
    ),
    UnaryRow(
        ("gammaln", "_npx_gammaln", "_sparse_gammaln"),
        "Logarithm of |gamma(x)|.",
        special.gammaln,
        slope_by(special.digamma),
        pointwise=Pointwise(Known.LOG_GAMMA),
    ),
    UnaryRow(("logical_not",), "1 where x is 0, else 0.", _logical_not, keeps_integers=True),
    UnaryRow(
        ("ones_like",),
        "Ones of the shape and dtype of x.",
        fill(1),
        keeps_integers=True,
        fills_with=1.0,
    ),
    UnaryRow(
        ("zeros_like", "_sparse_zeros_like"),
        "Zeros of the shape and dtype of x.",
        fill(0),
        keeps_integers=True,
        keeps_zeros=True,
        fills_with=0.0,
    ),
    UnaryRow(
        ("_npx_relu",),
        "max(x, 0).",
        _relu,
        _relu_slope,
        "output",
        keeps_integers=True,
        pointwise=Pointwise(Known.RELU),
    ),
    UnaryRow(
        ("_npx_sigmoid",),
        "1 / (1 + exp(-x)).",
        sigmoid,
        _sigmoid_slope,
        "output",
        pointwise=Pointwise(Known.SIGMOID),
    ),
)
"""Every function of one array. Those of ``mx.npx`` have separate rows, because MXNet's JSON has
separate names for them."""
