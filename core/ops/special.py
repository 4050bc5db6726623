"""Special functions that NumPy lacks: erf, its inverse, gamma and its logarithm and derivative.

Written for ``xp`` (NumPy or CuPy) and accurate to about 1e-15 in float64. The error function
follows W. J. Cody, "Rational Chebyshev approximations for the error function" (1969); the gamma
function is Lanczos' approximation with g = 7 and nine terms; digamma is its asymptotic series after
a shift.
"""

from __future__ import annotations

import math
from typing import Any

from ..types import Array
from .operator import Run

__all__ = ["digamma", "erf", "erfinv", "gamma", "gammaln"]

_LARGEST_EXACT = 18
"""The largest whole number whose gamma function is exact in float64 as it is rounded here."""

_ERF_SMALL = (
    (
        1.85777706184603153e-1,
        3.16112374387056560e0,
        1.13864154151050156e2,
        3.77485237685302021e2,
        3.20937758913846947e3,
    ),
    (
        1.0,
        2.36012909523441209e1,
        2.44024637934444173e2,
        1.28261652607737228e3,
        2.84423683343917062e3,
    ),
)
"""Numerator and denominator of erf(x) / x in x squared, for abs(x) up to 0.46875."""

_ERFC_LARGE = (
    (
        2.15311535474403846e-8,
        5.64188496988670089e-1,
        8.88314979438837594e0,
        6.61191906371416295e1,
        2.98635138197400131e2,
        8.81952221241769090e2,
        1.71204761263407058e3,
        2.05107837782607147e3,
        1.23033935479799725e3,
    ),
    (
        1.0,
        1.57449261107098347e1,
        1.17693950891312499e2,
        5.37181101862009858e2,
        1.62138957456669019e3,
        3.29079923573345963e3,
        4.36261909014324716e3,
        3.43936767414372164e3,
        1.23033935480374942e3,
    ),
)
"""Numerator and denominator of erfc(x) exp(x squared) in x, for x from 0.46875.

From 4 on, Cody has a third approximation. erf does not need it: erfc is so small there that its
relative error does not show in 1 - erfc.
"""

_ERF_ONE = 6.0
"""From here on, erf rounds to 1 in float64."""

_LANCZOS_G = 7.0
_LANCZOS = (
    0.99999999999980993,
    676.5203681218851,
    -1259.1392167224028,
    771.32342877765313,
    -176.61502916214059,
    12.507343278686905,
    -0.13857109526572012,
    9.9843695780195716e-6,
    1.5056327351493116e-7,
)
# The terms -B(2k) / 2k of the asymptotic series, with Bernoulli numbers B, and the number of steps
# by which the argument is raised first, so that the series is accurate.
_DIGAMMA_SERIES = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12)
_DIGAMMA_SHIFT = 8


def _ratio(run: Run, x: Array, coefficients: tuple[tuple[float, ...], ...], out: Array) -> None:
    """Write the ratio of two polynomials of ``x`` (highest power first) into ``out``."""
    below = run.scratch(x.shape, x.dtype)
    for target, terms in zip((out, below), coefficients, strict=True):
        target.fill(terms[0])
        for term in terms[1:]:
            target *= x
            target += term
    out /= below


def erf(run: Run, x: Array, out: Array) -> None:
    """Write the error function of a floating array; ``out`` may be ``x``."""
    xp = run.xp
    work = "float64" if x.dtype == "float64" else "float32"
    size, square, small, large = (run.scratch(x.shape, work) for _ in range(4))
    is_small = run.scratch(x.shape, "bool")
    xp.abs(x, out=size)
    xp.minimum(size, _ERF_ONE, out=size)
    xp.multiply(size, size, out=square)
    _ratio(run, size, _ERFC_LARGE, large)
    xp.negative(square, out=small)
    xp.exp(small, out=small)
    large *= small
    xp.subtract(1, large, out=large)
    xp.minimum(size, 0.46875, out=small)
    xp.less_equal(size, small, out=is_small)
    small *= small
    _ratio(run, small, _ERF_SMALL, square)
    square *= size
    xp.copyto(large, square, where=is_small)
    xp.copysign(large, x, out=out)


def erfinv(run: Run, x: Array, out: Array) -> None:
    """Write the inverse error function: infinite at -1 and 1, NaN outside."""
    xp = run.xp
    target = x.astype("float64")
    # At -1 and 1 the logarithm below would be infinite.
    inside = xp.clip(target, -1 + 1e-16, 1 - 1e-16)
    # Winitzki's closed form, with his constant 0.147, is accurate to 2e-3; each of Halley's steps
    # triples the digits.
    tail = xp.log1p(-inside * inside)
    middle = 2 / (math.pi * 0.147) + tail / 2
    y = xp.sign(inside) * xp.sqrt(xp.sqrt(middle * middle - tail / 0.147) - middle)
    error = xp.empty_like(y)
    for _ in range(3):
        erf(run, y, error)
        step = (error - inside) * (math.sqrt(math.pi) / 2) * xp.exp(y * y)
        y -= step / (1 + y * step)
    y = xp.copysign(xp.where(xp.abs(target) == 1, math.inf, y), target)
    out[...] = xp.where(xp.abs(target) > 1, math.nan, y)


def _lanczos_sum(z: Array) -> Any:
    total = _LANCZOS[0] + 0 * z
    for i, term in enumerate(_LANCZOS[1:], start=1):
        total = total + term / (z + i)
    return total


def gammaln(run: Run, x: Array, out: Array) -> None:
    """Write the logarithm of the absolute value of the gamma function, exactly 0 at 1 and 2."""
    xp = run.xp
    wide = x.astype("float64")
    is_left = wide < 0.5
    z = xp.where(is_left, 1 - wide, wide) - 1
    t = z + _LANCZOS_G + 0.5
    right = 0.5 * math.log(2 * math.pi) + (z + 0.5) * xp.log(t) - t + xp.log(_lanczos_sum(z))
    # Euler's reflection formula: gamma(x) gamma(1 - x) = pi / sin(pi x).
    reflected = math.log(math.pi) - xp.log(xp.abs(_sin_pi(xp, wide))) - right
    result = xp.where(is_left, reflected, right)
    result = xp.where((wide == 1) | (wide == 2), 0.0, result)
    out[...] = xp.where(xp.isinf(wide), math.inf, result)


def gamma(run: Run, x: Array, out: Array) -> None:
    """Write the gamma function; NaN at negative integers, infinite with the sign of 0 at 0.

    Factorials are exact, so that those of integers lose nothing when they are cut off.
    """
    xp = run.xp
    wide = x.astype("float64")
    is_left = wide < 0.5
    z = xp.where(is_left, 1 - wide, wide) - 1
    t = z + _LANCZOS_G + 0.5
    # The power is taken in two halves: the whole overflows long before the gamma function does.
    half = t ** ((z + 0.5) / 2)
    right = math.sqrt(2 * math.pi) * half * xp.exp(-t) * half * _lanczos_sum(z)
    reflected = math.pi / (_sin_pi(xp, wide) * right)
    result = xp.where(is_left, reflected, right)
    is_whole = wide == xp.floor(wide)
    result = xp.where(is_whole & (wide <= _LARGEST_EXACT), xp.rint(result), result)
    result = xp.where((wide < 0) & is_whole, math.nan, result)
    result = xp.where(wide == 0, xp.copysign(math.inf, wide), result)
    out[...] = xp.where(wide == math.inf, math.inf, result)


def digamma(run: Run, x: Array, out: Array) -> None:
    """Write the logarithmic derivative of the gamma function.

    At its poles, 0 and the negative integers, the result is the largest number, as in MXNet.
    """
    xp = run.xp
    wide = x.astype("float64")
    is_left = wide < 0.5
    z = xp.where(is_left, 1 - wide, wide)
    total = xp.zeros_like(z)
    for _ in range(_DIGAMMA_SHIFT):
        total -= 1 / z
        z = z + 1
    total += xp.log(z) - 0.5 / z
    inverse_square = 1 / (z * z)
    power = inverse_square
    for term in _DIGAMMA_SERIES:
        total += term * power
        power = power * inverse_square
    # The reflection formula: digamma(x) = digamma(1 - x) - pi / tan(pi x).
    total = xp.where(is_left, total - math.pi / xp.tan(math.pi * wide), total)
    is_pole = (wide <= 0) & (wide == xp.floor(wide))
    total = xp.where(is_pole, xp.finfo("float64").max, total)
    out[...] = xp.where(wide == math.inf, math.inf, total)


def _sin_pi(xp: Any, x: Array) -> Any:
    """Return sin(pi x), exactly 0 at integers."""
    nearest = xp.rint(x)
    return xp.sin(math.pi * (x - nearest)) * (1 - 2 * xp.abs(xp.mod(nearest, 2)))
