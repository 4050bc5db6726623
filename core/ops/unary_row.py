"""The table row that declares an elementwise function of one array, and its building blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from ..capabilities.functions import Pointwise
from ..types import Array
from .derivatives import Factor, Functions, Tensor
from .operator import Run

__all__ = [
    "Function",
    "Slope",
    "UnaryRow",
    "cbrt",
    "chain",
    "fill",
    "inverse",
    "like",
    "negative",
    "plus",
    "slope_by",
    "sqrt",
    "square",
    "times",
    "ufunc",
]

Function: TypeAlias = Callable[[Run, Array, Array], None]
Slope: TypeAlias = Callable[[Run, Array], Array]
Derivative: TypeAlias = Callable[[Functions, Tensor, Tensor], Factor]


class UnaryRow(NamedTuple):
    """One function.

    Attributes:
        names: MXNet's name, then its aliases.
        doc: what it computes.
        function: computes the function's value.
        slope: the derivative, a constant, or None if the gradient is 0.
        slope_of: whether the slope is computed from the input or from the output.
        keeps_integers: whether integers are passed to the function as they are; otherwise they are
            converted to float64 and back.
        keeps_zeros: whether it maps 0 to 0, so that sparse arrays stay sparse.
        derivative: the derivative in terms of operators, from x and the output y, for higher-order
            gradients.
        pointwise: the known function that it is, if any.
        fills_with: its value, if that is the same for any x.
        is_nonnegative: whether it has no value below 0; of a known function this follows.
    """

    names: tuple[str, ...]
    doc: str
    function: Function
    slope: Slope | float | None = None
    slope_of: Literal["input", "output"] = "input"
    keeps_integers: bool = False
    keeps_zeros: bool = False
    derivative: Derivative | None = None
    pointwise: Pointwise | None = None
    fills_with: float | None = None
    is_nonnegative: bool = False


def like(run: Run, x: Array) -> Array:
    return run.scratch(x.shape, x.dtype)


def ufunc(name: str) -> Function:
    """Return a function that calls the ufunc of this name."""

    def apply(run: Run, x: Array, out: Array) -> None:
        getattr(run.xp, name)(x, out=out)

    return apply


def times(factor: float) -> Function:
    def apply(run: Run, x: Array, out: Array) -> None:
        run.xp.multiply(x, factor, out=out)

    return apply


def plus(term: float) -> Function:
    def apply(run: Run, x: Array, out: Array) -> None:
        run.xp.add(x, term, out=out)

    return apply


def fill(value: int) -> Function:
    def apply(run: Run, x: Array, out: Array) -> None:
        out.fill(value)

    return apply


def chain(*functions: Function) -> Function:
    """Return the composition of functions, applied in order."""

    def apply(run: Run, x: Array, out: Array) -> None:
        for function in functions:
            function(run, x, out)
            x = out

    return apply


def slope_by(*functions: Function) -> Slope:
    """Return a slope that is a composition of functions of its source."""
    function = chain(*functions)

    def slope(run: Run, source: Array) -> Array:
        factor = like(run, source)
        function(run, source, factor)
        return factor

    return slope


square, sqrt, cbrt, inverse, negative = map(
    ufunc, ("square", "sqrt", "cbrt", "reciprocal", "negative")
)
