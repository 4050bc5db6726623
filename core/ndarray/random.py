"""Random arrays (``mx.nd.random``, ``mx.random``).

Numbers come from the generator of the device they are for, seeded by ``seed``. Parameters are
numbers, with ``shape`` the shape of the result, or NDArrays, with ``shape`` what is drawn for each
element; the result then has the parameters' shape, followed by ``shape``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ..device import Context
from ..errors import UsageError
from ..ops import get_operator
from ..ops.namespace import OperatorNamespace
from ..random import get_state, seed, set_state
from .array import NDArray, call_operator
from .functions import make_function

__all__ = [
    "exponential",
    "gamma",
    "generalized_negative_binomial",
    "get_state",
    "multinomial",
    "negative_binomial",
    "normal",
    "poisson",
    "randint",
    "randn",
    "seed",
    "set_state",
    "shuffle",
    "uniform",
]

ShapeLike = int | Sequence[int] | None
Parameter = float | NDArray


def uniform(
    low: Parameter = 0,
    high: Parameter = 1,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: NDArray | None = None,
) -> NDArray:
    """Draw from [low, high), float32 by default."""
    return _draw("uniform", [low, high], shape, dtype, ctx, out)


def normal(
    loc: Parameter = 0,
    scale: Parameter = 1,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: NDArray | None = None,
) -> NDArray:
    """Draw from the normal distribution with mean ``loc`` and standard deviation ``scale``."""
    return _draw("normal", [loc, scale], shape, dtype, ctx, out)


def randn(
    *shape: int,
    loc: Parameter = 0,
    scale: Parameter = 1,
    dtype: Any = None,
    ctx: Context | None = None,
    out: NDArray | None = None,
) -> NDArray:
    """Draw from the normal distribution; the dimensions are the positional arguments."""
    return _draw("normal", [loc, scale], shape or None, dtype, ctx, out)


def poisson(
    lam: Parameter = 1,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: NDArray | None = None,
) -> NDArray:
    """Draw from the Poisson distribution with mean ``lam``; float32 by default."""
    return _draw("poisson", [lam], shape, dtype, ctx, out)


def exponential(
    scale: Parameter = 1,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: NDArray | None = None,
) -> NDArray:
    """Draw from the exponential distribution with mean ``scale``."""
    return _draw("exponential", [1.0 / scale], shape, dtype, ctx, out)  # it takes the rate


def gamma(
    alpha: Parameter = 1,
    beta: Parameter = 1,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: NDArray | None = None,
) -> NDArray:
    """Draw from the gamma distribution with shape ``alpha`` and scale ``beta``."""
    return _draw("gamma", [alpha, beta], shape, dtype, ctx, out)


def negative_binomial(
    k: Parameter = 1,
    p: Parameter = 1,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: NDArray | None = None,
) -> NDArray:
    """Draw the number of failures before the ``k``-th success of probability ``p``."""
    return _draw("negative_binomial", [k, p], shape, dtype, ctx, out)


def generalized_negative_binomial(
    mu: Parameter = 1,
    alpha: Parameter = 1,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: NDArray | None = None,
) -> NDArray:
    """Draw from the negative binomial distribution with mean ``mu`` and dispersion ``alpha``."""
    return _draw("generalized_negative_binomial", [mu, alpha], shape, dtype, ctx, out)


def randint(
    low: int,
    high: int,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: NDArray | None = None,
) -> NDArray:
    """Draw whole numbers from [low, high); int32 by default, or int64."""
    if isinstance(low, NDArray) or isinstance(high, NDArray):
        raise ValueError("Distribution parameters of randint must be numbers, not NDArrays")
    return _draw("randint", [low, high], shape, dtype, ctx, out)


def multinomial(
    data: NDArray,
    shape: ShapeLike = None,
    get_prob: bool = False,
    out: NDArray | None = None,
    dtype: Any = "int32",
) -> Any:
    """Draw categories.

    Args:
        data: probabilities, shape (k,) or (n, k); each row sums to 1.
        shape: what is drawn from each row; one number when not given.
        get_prob: return the logarithms of the drawn categories' probabilities as well; their
            gradient reaches ``data``.
        out: where to write the categories.
        dtype: dtype of the categories.

    Returns:
        categories of shape (n,) + shape, or a list of them and the logarithms.
    """
    attributes = {"get_prob": get_prob, "dtype": dtype, **_given(shape=shape, out=out)}
    return call_operator(get_operator("_sample_multinomial"), (data,), attributes)


def shuffle(data: NDArray, out: NDArray | None = None) -> NDArray:
    """Return the array with its first axis in random order."""
    return cast(NDArray, call_operator(get_operator("_shuffle"), (data,), {"out": out}))


def _draw(
    name: str,
    parameters: Sequence[Parameter],
    shape: ShapeLike,
    dtype: Any,
    ctx: Context | None,
    out: NDArray | None,
) -> NDArray:
    arrays = [isinstance(value, NDArray) for value in parameters]
    numbers = [isinstance(value, (int, float, np.number)) for value in parameters]
    if not all(arrays) and not all(numbers):
        raise UsageError(
            "Distribution parameters must be all NDArrays or all numbers, but got "
            + ", ".join(type(value).__name__ for value in parameters)
        )
    given = _given(shape=shape, dtype=dtype, out=out)
    if all(arrays):
        operator = get_operator(f"_sample_{name}")
        return cast(NDArray, call_operator(operator, tuple(parameters), given))
    if shape is None and out is None:
        given["shape"] = 1
    if out is not None:
        # The operators' default would contradict an array of any other dtype than float32.
        given.setdefault("dtype", out.dtype)
    operator = get_operator(f"_random_{name}")
    return cast(NDArray, call_operator(operator, tuple(parameters), {**given, "ctx": ctx}))


def _given(**values: Any) -> dict[str, Any]:
    """Return the keywords that were given; the others are left to the operator's defaults."""
    return {name: value for name, value in values.items() if value is not None}


_operators = OperatorNamespace(__name__, "_random_", make_function)
__getattr__, __dir__ = _operators.get, _operators.names
