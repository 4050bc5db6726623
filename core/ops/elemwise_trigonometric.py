"""Rows of the trigonometric and hyperbolic functions, and of their inverses."""

from __future__ import annotations

import math

from .unary_row import (
    UnaryRow,
    inverse,
    negative,
    plus,
    slope_by,
    sqrt,
    square,
    times,
    ufunc,
)

__all__ = ["TRIGONOMETRY"]

_TO_DEGREES, _TO_RADIANS = 180 / math.pi, math.pi / 180
_UNDER_ROOT = (square, negative, plus(1), sqrt, inverse)
"""1 / sqrt(1 - x**2), in steps."""

TRIGONOMETRY = (
    UnaryRow(
        ("sin", "_sparse_sin"),
        "Sine.",
        ufunc("sin"),
        slope_by(ufunc("cos")),
        keeps_zeros=True,
        derivative=lambda f, x, y: f.cos(x),
    ),
    UnaryRow(
        ("cos", "_sparse_cos"),
        "Cosine.",
        ufunc("cos"),
        slope_by(ufunc("sin"), negative),
        derivative=lambda f, x, y: -f.sin(x),
    ),
    UnaryRow(
        ("tan", "_sparse_tan"),
        "Tangent.",
        ufunc("tan"),
        slope_by(square, plus(1)),
        "output",
        keeps_zeros=True,
        derivative=lambda f, x, y: y * y + 1,
    ),
    UnaryRow(
        ("arcsin", "_sparse_arcsin"),
        "Inverse sine.",
        ufunc("arcsin"),
        slope_by(*_UNDER_ROOT),
        keeps_zeros=True,
        derivative=lambda f, x, y: 1 / f.sqrt(1 - x * x),
    ),
    UnaryRow(
        ("arccos", "_sparse_arccos"),
        "Inverse cosine.",
        ufunc("arccos"),
        slope_by(*_UNDER_ROOT, negative),
        derivative=lambda f, x, y: -1 / f.sqrt(1 - x * x),
    ),
    UnaryRow(
        ("arctan", "_sparse_arctan"),
        "Inverse tangent.",
        ufunc("arctan"),
        slope_by(square, plus(1), inverse),
        keeps_zeros=True,
        derivative=lambda f, x, y: 1 / (x * x + 1),
    ),
    UnaryRow(
        ("sinh", "_sparse_sinh"),
        "Hyperbolic sine.",
        ufunc("sinh"),
        slope_by(ufunc("cosh")),
        keeps_zeros=True,
        derivative=lambda f, x, y: f.cosh(x),
    ),
    UnaryRow(
        ("cosh", "_sparse_cosh"),
        "Hyperbolic cosine.",
        ufunc("cosh"),
        slope_by(ufunc("sinh")),
        derivative=lambda f, x, y: f.sinh(x),
    ),
    UnaryRow(
        ("arcsinh", "_sparse_arcsinh"),
        "Inverse hyperbolic sine.",
        ufunc("arcsinh"),
        slope_by(square, plus(1), sqrt, inverse),
        keeps_zeros=True,
        derivative=lambda f, x, y: 1 / f.sqrt(x * x + 1),
    ),
    UnaryRow(
        ("arccosh", "_sparse_arccosh"),
        "Inverse hyperbolic cosine.",
        ufunc("arccosh"),
        slope_by(square, plus(-1), sqrt, inverse),
        derivative=lambda f, x, y: 1 / f.sqrt(x * x - 1),
    ),
    UnaryRow(
        ("arctanh", "_sparse_arctanh"),
        "Inverse hyperbolic tangent.",
        ufunc("arctanh"),
        slope_by(square, negative, plus(1), inverse),
        keeps_zeros=True,
        derivative=lambda f, x, y: 1 / (1 - x * x),
    ),
    UnaryRow(
        ("degrees", "_sparse_degrees"),
        "Radians to degrees.",
        times(_TO_DEGREES),
        _TO_DEGREES,
        keeps_zeros=True,
    ),
    UnaryRow(
        ("radians", "_sparse_radians"),
        "Degrees to radians.",
        times(_TO_RADIANS),
        _TO_RADIANS,
        keeps_zeros=True,
    ),
)
