"""Python's operators on arrays, in terms of MXNet's operators of the same meaning."""

from __future__ import annotations

from typing import Any, Generic

from .handle import A

__all__ = ["Arithmetic"]


class Arithmetic(Generic[A]):
    """Arithmetic and comparison; the other side is an array or a number.

    A result keeps the dtype of the array. Comparisons give 0 and 1 in that dtype.
    """

    __slots__ = ()

    def _binary(self, array_op: str, scalar_op: str, other: Any) -> A:
        """Apply one operator to two arrays, or another to an array and a number."""
        raise NotImplementedError

    def _binary_inplace(self, array_op: str, scalar_op: str, other: Any) -> A:
        """As ``_binary``, written over this array."""
        raise NotImplementedError

    def __add__(self, other: Any) -> A:
        return self._binary("broadcast_add", "_plus_scalar", other)

    __radd__ = __add__

    def __iadd__(self, other: Any) -> A:
        return self._binary_inplace("broadcast_add", "_plus_scalar", other)

    def __sub__(self, other: Any) -> A:
        return self._binary("broadcast_sub", "_minus_scalar", other)

    def __rsub__(self, other: Any) -> A:
        return self._binary("broadcast_sub", "_rminus_scalar", other)

    def __isub__(self, other: Any) -> A:
        return self._binary_inplace("broadcast_sub", "_minus_scalar", other)

    def __mul__(self, other: Any) -> A:
        return self._binary("broadcast_mul", "_mul_scalar", other)

    __rmul__ = __mul__

    def __imul__(self, other: Any) -> A:
        return self._binary_inplace("broadcast_mul", "_mul_scalar", other)

    def __truediv__(self, other: Any) -> A:
        return self._binary("broadcast_div", "_div_scalar", other)

    def __rtruediv__(self, other: Any) -> A:
        return self._binary("broadcast_div", "_rdiv_scalar", other)

    def __itruediv__(self, other: Any) -> A:
        return self._binary_inplace("broadcast_div", "_div_scalar", other)

    def __mod__(self, other: Any) -> A:
        return self._binary("broadcast_mod", "_mod_scalar", other)

    def __rmod__(self, other: Any) -> A:
        return self._binary("broadcast_mod", "_rmod_scalar", other)

    def __imod__(self, other: Any) -> A:
        return self._binary_inplace("broadcast_mod", "_mod_scalar", other)

    def __pow__(self, other: Any) -> A:
        return self._binary("broadcast_power", "_power_scalar", other)

    def __rpow__(self, other: Any) -> A:
        return self._binary("broadcast_power", "_rpower_scalar", other)

    def __neg__(self) -> A:
        return self._binary("broadcast_mul", "_mul_scalar", -1.0)

    def __eq__(self, other: object) -> A:  # type: ignore[override]
        return self._binary("broadcast_equal", "_equal_scalar", other)

    def __ne__(self, other: object) -> A:  # type: ignore[override]
        return self._binary("broadcast_not_equal", "_not_equal_scalar", other)

    def __gt__(self, other: Any) -> A:
        return self._binary("broadcast_greater", "_greater_scalar", other)

    def __ge__(self, other: Any) -> A:
        return self._binary("broadcast_greater_equal", "_greater_equal_scalar", other)

    def __lt__(self, other: Any) -> A:
        return self._binary("broadcast_lesser", "_lesser_scalar", other)

    def __le__(self, other: Any) -> A:
        return self._binary("broadcast_lesser_equal", "_lesser_equal_scalar", other)

    def __hash__(self) -> int:
        return id(self) // 16
