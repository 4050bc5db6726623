"""Python's operators on symbols, in terms of MXNet's operators of the same meaning."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

from ..errors import NotImplementedForSymbol

__all__ = ["Arithmetic", "Meaning"]

S = TypeVar("S")
"""The class of symbols."""


class Meaning(NamedTuple):
    """What a Python operator stands for, with the hints that name the results.

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


class Arithmetic(Generic[S]):
    """Arithmetic and comparison; the other side is a symbol of the same shape or a number."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy scalars leave `scalar * symbol` to the symbol.

    def _binary(self, meaning: Meaning, other: Any) -> S:
        """Apply an operator to this symbol and a symbol or number."""
        raise NotImplementedError

    def __add__(self, other: Any) -> S:
        return self._binary(_ADD, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> S:
        return self._binary(_SUB, other)

    def __rsub__(self, other: Any) -> S:
        return self._binary(_RSUB, other)

    def __mul__(self, other: Any) -> S:
        return self._binary(_MUL, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> S:
        return self._binary(_DIV, other)

    def __rtruediv__(self, other: Any) -> S:
        return self._binary(_RDIV, other)

    def __mod__(self, other: Any) -> S:
        return self._binary(_MOD, other)

    def __rmod__(self, other: Any) -> S:
        return self._binary(_RMOD, other)

    def __pow__(self, other: Any) -> S:
        return self._binary(_POW, other)

    def __rpow__(self, other: Any) -> S:
        return self._binary(_RPOW, other)

    def __neg__(self) -> S:
        return self._binary(_MUL, -1.0)

    def __eq__(self, other: object) -> S:  # type: ignore[override]
        return self._binary(_EQ, other)

    def __ne__(self, other: object) -> S:  # type: ignore[override]
        return self._binary(_NE, other)

    def __gt__(self, other: Any) -> S:
        return self._binary(_GT, other)

    def __ge__(self, other: Any) -> S:
        return self._binary(_GE, other)

    def __lt__(self, other: Any) -> S:
        return self._binary(_LT, other)

    def __le__(self, other: Any) -> S:
        return self._binary(_LE, other)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise NotImplementedForSymbol("bool()")

    def __iadd__(self, other: Any) -> S:
        raise NotImplementedForSymbol("+=")

    def __isub__(self, other: Any) -> S:
        raise NotImplementedForSymbol("-=")

    def __imul__(self, other: Any) -> S:
        raise NotImplementedForSymbol("*=")

    def __itruediv__(self, other: Any) -> S:
        raise NotImplementedForSymbol("/=")
