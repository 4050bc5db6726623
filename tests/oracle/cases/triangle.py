"""Triangular matrices."""

from __future__ import annotations

from oracle.case import Case

_READ, _MAKE = "_linalg_extracttrian", "_linalg_maketrian"
_UPPER = {"lower": False}

CASES = (
    Case("lower", _READ, {}, {"A": (2, 3, 3)}),
    Case("upper", _READ, _UPPER, {"A": (3, 3)}),
    Case("above", _READ, {"offset": 1}, {"A": (4, 4)}),
    Case("below", _READ, {"offset": -1, **_UPPER}, {"A": (4, 4)}),
    Case("make_lower", _MAKE, {}, {"A": (2, 6)}),
    Case("make_upper", _MAKE, _UPPER, {"A": (6,)}),
    Case("make_above", _MAKE, {"offset": 2}, {"A": (3,)}),
    Case("make_below", _MAKE, {"offset": -1, **_UPPER}, {"A": (2, 3)}),
)
