"""Python's operators on symbols, in terms of MXNet's operators of the same meaning.

The other side is a symbol of the same shape or a number. The functions are methods of ``Symbol``
(``__add__ = arithmetic.add``); what would change a symbol in place is refused, as in MXNet.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar

from ..errors import NotImplementedForSymbol

__all__ = [
    "Meaning",
    "add",
    "add_inplace",
    "divide",
    "divide_inplace",
    "divide_into",
    "equal",
    "greater",
    "greater_equal",
    "lesser",
    "lesser_equal",
    "modulo",
    "modulo_of",
    "multiply",
    "multiply_inplace",
    "negative",
    "not_equal",
    "power",
    "power_of",
    "subtract",
    "subtract_from",
    "subtract_inplace",
]

S = TypeVar("S")
"""The class of symbols."""

S_co = TypeVar("S_co", covariant=True)


class _Operand(Protocol[S_co]):
    def _binary(self, meaning: Meaning, other: Any) -> S_co:
        """Apply an operator to this symbol and a symbol or number."""


class Meaning(NamedTuple):
    """What a Python operator stands for, with the hints that name the results.

    A hint is the name, in lower case, by which MXNet calls the operator there: ``_PlusScalar``
    gives ``_plusscalar0``, ``_equal_scalar`` gives ``_equal_scalar0``.

    Attributes:
        symbols: operator on two symbols, whose shapes must be equal.
        hint: names of its results start with this.
        scalar: operator on a symbol and a number.
        scalar_hint: names of its results start with this.
    """

    symbols: str
    hint: str
    scalar: str
    scalar_hint: str


_ADD = Meaning("elemwise_add", "_plus", "_plus_scalar", "_plusscalar")
_SUB = Meaning("elemwise_sub", "_minus", "_minus_scalar", "_minusscalar")
_RSUB = Meaning("elemwise_sub", "_minus", "_rminus_scalar", "_rminusscalar")
_MUL = Meaning("elemwise_mul", "_mul", "_mul_scalar", "_mulscalar")
_DIV = Meaning("elemwise_div", "_div", "_div_scalar", "_divscalar")
_RDIV = Meaning("elemwise_div", "_div", "_rdiv_scalar", "_rdivscalar")
_MOD = Meaning("_mod", "_mod", "_mod_scalar", "_modscalar")
_RMOD = Meaning("_mod", "_mod", "_rmod_scalar", "_rmodscalar")
_POW = Meaning("_power", "_power", "_power_scalar", "_powerscalar")
_RPOW = Meaning("_power", "_power", "_rpower_scalar", "_rpower_scalar")
_EQ = Meaning("_equal", "_equal", "_equal_scalar", "_equal_scalar")
_NE = Meaning("_not_equal", "_not_equal", "_not_equal_scalar", "_not_equal_scalar")
_GT = Meaning("_greater", "_greater", "_greater_scalar", "_greater_scalar")
_GE = Meaning("_greater_equal", "_greater_equal", "_greater_equal_scalar", "_greater_equal_scalar")
_LT = Meaning("_lesser", "_lesser", "_lesser_scalar", "_lesser_scalar")
_LE = Meaning("_lesser_equal", "_lesser_equal", "_lesser_equal_scalar", "_lesser_equal_scalar")


def add(symbol: _Operand[S], other: Any) -> S:
    return symbol._binary(_ADD, other)


def subtract(symbol: _Operand[S], other: Any) -> S:
    return symbol._binary(_SUB, other)


def subtract_from(symbol: _Operand[S], other: Any) -> S:
    return symbol._binary(_RSUB, other)


def multiply(symbol: _Operand[S], other: Any) -> S:
    return symbol._binary(_MUL, other)


def divide(symbol: _Operand[S], other: Any) -> S:
    return symbol._binary(_DIV, other)


def divide_into(symbol: _Operand[S], other: Any) -> S:
    return symbol._binary(_RDIV, other)


def modulo(symbol: _Operand[S], other: Any) -> S:
    return symbol._binary(_MOD, other)


def modulo_of(symbol: _Operand[S], other: Any) -> S:
    return symbol._binary(_RMOD, other)


def power(symbol: _Operand[S], other: Any) -> S:
    return symbol._binary(_POW, other)


def power_of(symbol: _Operand[S], other: Any) -> S:
    return symbol._binary(_RPOW, other)


def negative(symbol: _Operand[S]) -> S:
    return symbol._binary(_MUL, -1.0)


def equal(symbol: _Operand[S], other: Any) -> S:
    return symbol._binary(_EQ, other)


def not_equal(symbol: _Operand[S], other: Any) -> S:
    return symbol._binary(_NE, other)


def greater(symbol: _Operand[S], other: Any) -> S:
    return symbol._binary(_GT, other)


def greater_equal(symbol: _Operand[S], other: Any) -> S:
    return symbol._binary(_GE, other)


def lesser(symbol: _Operand[S], other: Any) -> S:
    return symbol._binary(_LT, other)


def lesser_equal(symbol: _Operand[S], other: Any) -> S:
    return symbol._binary(_LE, other)


def add_inplace(symbol: object, other: Any) -> NoReturn:
    raise NotImplementedForSymbol("+=")


def subtract_inplace(symbol: object, other: Any) -> NoReturn:
    raise NotImplementedForSymbol("-=")


def multiply_inplace(symbol: object, other: Any) -> NoReturn:
    raise NotImplementedForSymbol("*=")


def divide_inplace(symbol: object, other: Any) -> NoReturn:
    raise NotImplementedForSymbol("/=")
