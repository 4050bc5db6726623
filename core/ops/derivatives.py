"""Gradients in terms of operators, for higher-order gradients.

``Operator.derivative`` builds them from functions passed to it: currently those of ``mx.nd``,
applied to recorded arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

from ..types import DType, Shape

__all__ = ["Factor", "Functions", "Partials", "Tensor", "logarithm", "sum_to"]


class Tensor(Protocol):
    """The part of the array interface that derivatives use."""

    @property
    def shape(self) -> Shape:
        """Its shape."""

    @property
    def ndim(self) -> int:
        """Number of axes."""

    @property
    def dtype(self) -> DType:
        """Type of its elements."""

    def reshape(self, *shape: Any) -> Any:
        """Return it in another shape."""

    def __neg__(self) -> Any: ...
    def __add__(self, other: Any) -> Any: ...
    def __sub__(self, other: Any) -> Any: ...
    def __rsub__(self, other: Any) -> Any: ...
    def __mul__(self, other: Any) -> Any: ...
    def __rmul__(self, other: Any) -> Any: ...
    def __truediv__(self, other: Any) -> Any: ...
    def __rtruediv__(self, other: Any) -> Any: ...
    def __pow__(self, other: Any) -> Any: ...
    def __gt__(self, other: Any) -> Any: ...
    def __ge__(self, other: Any) -> Any: ...
    def __lt__(self, other: Any) -> Any: ...
    def __le__(self, other: Any) -> Any: ...


class Functions(Protocol):
    """The operators, by name."""

    def __getattr__(self, name: str) -> Any: ...


Factor: TypeAlias = Tensor | float
"""A derivative, by which the incoming gradient is multiplied."""

Partial: TypeAlias = Callable[[Functions, Any, Any, Tensor], Factor]
"""Returns one derivative of y = f(a, b), given a, b and y; a or b may be a number."""


class Partials(NamedTuple):
    """The two derivatives of y = f(a, b)."""

    by_left: Partial
    by_right: Partial


def logarithm(f: Functions, x: Tensor | float) -> Factor:
    """Return the natural logarithm of an array or a number."""
    found: Factor = math.log(x) if isinstance(x, float | int) else f.log(x)
    return found


def sum_to(f: Functions, grad: Tensor, shape: Shape) -> Tensor:
    """Sum over the axes along which an input of this shape was broadcast."""
    if grad.shape == shape:
        return grad
    padded = (1,) * (grad.ndim - len(shape)) + shape
    axes = tuple(
        i for i, (old, new) in enumerate(zip(padded, grad.shape, strict=True)) if old != new
    )
    summed: Tensor = f.sum(grad, axis=axes, keepdims=True).reshape(shape)
    return summed
