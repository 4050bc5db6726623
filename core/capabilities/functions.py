"""Known functions of numbers, which many operators apply element by element."""

from __future__ import annotations

import enum
from typing import NamedTuple

__all__ = ["Arithmetic", "Function", "Pointwise", "Reduction", "is_relu", "linear"]


class Function(enum.Enum):
    """A function of one number x, with up to two parameters alpha and beta."""

    ABSOLUTE = "absolute"
    CLIP = "clip"
    """x cut to [alpha, beta]."""
    ELU = "elu"
    """x above zero, else alpha * (exp(x) - 1)."""
    GAMMA = "gamma"
    GELU = "gelu"
    """x times the probability that a normal variate lies below x."""
    HARD_SIGMOID = "hard_sigmoid"
    """alpha * x + beta, cut to [0, 1]."""
    HARD_SWISH = "hard_swish"
    """x times the hard sigmoid."""
    INVERSE_ERF = "inverse_erf"
    LINEAR = "linear"
    """alpha * x + beta."""
    LOG_GAMMA = "log_gamma"
    """The logarithm of the absolute value of the gamma function."""
    RELU = "relu"
    """x above zero, else alpha * x."""
    SIGMOID = "sigmoid"
    SOFT_RELU = "soft_relu"
    """log(1 + exp(x))."""
    SQUARE = "square"
    SQUARE_ROOT = "square_root"
    SWISH = "swish"
    """x times the sigmoid of alpha * x."""
    TANH = "tanh"


_NONNEGATIVE = {
    Function.ABSOLUTE,
    Function.HARD_SIGMOID,
    Function.SIGMOID,
    Function.SOFT_RELU,
    Function.SQUARE,
    Function.SQUARE_ROOT,
}
"""Functions without values below 0, whatever their parameters are."""

_TRANSCENDENTAL = {
    Function.ELU,
    Function.GAMMA,
    Function.GELU,
    Function.INVERSE_ERF,
    Function.LOG_GAMMA,
    Function.SIGMOID,
    Function.SOFT_RELU,
    Function.SWISH,
    Function.TANH,
}
"""Functions that take an exponential or the like, and therefore more time than others."""

_SPECIAL = {Function.GAMMA, Function.INVERSE_ERF, Function.LOG_GAMMA}
"""Special functions: no layer applies them to what it computes."""


class Pointwise(NamedTuple):
    """What an operator does to each element of its only input.

    Attributes:
        function: the function.
        alpha, beta: its parameters, where it has any.
        keeps_nan: whether NaN stays NaN. A layer that an activation is fused into need not keep it.
    """

    function: Function
    alpha: float = 0.0
    beta: float = 0.0
    keeps_nan: bool = True

    @property
    def is_special(self) -> bool:
        """Whether it is a special function, which must not be fused into a layer."""
        return self.function in _SPECIAL

    @property
    def is_transcendental(self) -> bool:
        """Whether it takes an exponential or the like, and therefore more time than others."""
        return self.function in _TRANSCENDENTAL

    @property
    def keeps_maximum(self) -> bool:
        """Whether the greatest of several numbers has the greatest value and, in practice, the
        same gradient as that value.

        That is so if the function never decreases, of the lowest number is what it is of -inf, and
        has no slope where different numbers have one value. A clip has, at its bounds.
        """
        match self.function:
            case Function.ELU:
                return self.alpha >= 0
            case Function.RELU:
                return self.alpha == 0
        return self.function in (Function.SIGMOID, Function.SOFT_RELU, Function.TANH)

    @property
    def is_nonnegative(self) -> bool:
        """Whether no value is below 0, whatever x is."""
        match self.function:
            case Function.CLIP:
                return self.alpha >= 0
            case Function.RELU:
                return self.alpha == 0
        return self.function in _NONNEGATIVE


def linear(alpha: float, beta: float = 0.0) -> Pointwise:
    """Return alpha * x + beta."""
    return Pointwise(Function.LINEAR, alpha, beta)


def is_relu(function: Pointwise | None) -> bool:
    """Return whether a function is the plain ReLU, 0 below zero."""
    return function is not None and function.function is Function.RELU and not function.alpha


class Arithmetic(enum.Enum):
    """A function of two numbers."""

    ADD = "add"
    DIVIDE = "divide"
    MULTIPLY = "multiply"
    SUBTRACT = "subtract"

    @property
    def is_commutative(self) -> bool:
        """Whether the order of the two does not matter."""
        return self in (Arithmetic.ADD, Arithmetic.MULTIPLY)


class Reduction(enum.Enum):
    """A function of all numbers along some axes."""

    LENGTH = "length"
    """The square root of the sum of squares."""
    MAXIMUM = "maximum"
    MEAN = "mean"
    MINIMUM = "minimum"
    PRODUCT = "product"
    SUM = "sum"
