"""Random arrays (``mx.nd.random``, ``mx.random``).

Numbers come from the generator of the device they are for, seeded by ``seed``. Parameters are
numbers, with ``shape`` the shape of the result, or NDArrays, with ``shape`` what is drawn for each
element; the result then has the parameters' shape, followed by ``shape``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from core.backends import backend_of
from core.device import Context, current_context
from core.errors import MXNetError, ShapeError
from core.ndarray.array import NDArray
from core.ndarray.functions import make_function
from core.ops.namespace import OperatorNamespace
from core.random import device_random, get_state, seed, set_state
from core.types import DType, Shape, to_dtype

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
    return _draw("exponential", [scale], shape, dtype, ctx, out)


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
    means, dispersions = _host(mu), _host(alpha)
    spread = np.where(dispersions == 0, 1, dispersions)
    target = _target([mu, alpha], shape, dtype, ctx, out)
    size = (*np.broadcast_shapes(means.shape, dispersions.shape), *target.tail)
    # A Poisson whose mean is gamma distributed; without dispersion the mean is mu itself.
    rates = _numbers(
        target, "gamma", _columns(1 / spread, target), _columns(spread * means, target)
    )
    fixed = np.broadcast_to(_columns(dispersions, target) == 0, size)
    rates = np.where(fixed, _columns(means, target), rates)
    return _store(_numbers(target, "poisson", rates), target)


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
        raise ValueError("randint takes numbers, not NDArrays")
    kind = to_dtype("int32" if dtype is None else dtype)
    if kind.name not in ("int32", "int64"):
        raise MXNetError(f"randint makes int32 or int64, not {kind}")
    return _draw("integers", [low, high], shape, kind, ctx, out)


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
        get_prob: return the logarithms of the drawn categories' probabilities as well.
        out: where to write the categories.
        dtype: dtype of the categories.

    Returns:
        categories of shape (n,) + shape, or a list of them and the logarithms.
    """
    probabilities = data.asnumpy().astype(np.float64)
    rows = probabilities.reshape(-1, probabilities.shape[-1])
    target = _target([data], shape, dtype, None, out)
    size = (*probabilities.shape[:-1], *target.tail)
    numbers = _numbers(_Target(data.context, size, (), target.dtype, None), "random")
    # A sum a little below 1 must not give a category that does not exist.
    drawn = np.stack(
        [
            np.searchsorted(ends, row, side="right")
            for ends, row in zip(
                rows.cumsum(axis=1)[:, :-1], numbers.reshape(len(rows), -1), strict=True
            )
        ]
    )
    categories = _store(drawn.reshape(size or (1,)), target)
    if not get_prob:
        return categories
    chosen = np.log(np.take_along_axis(rows, drawn, axis=1)).reshape(size or (1,))
    return [categories, _store(chosen, target._replace(dtype=np.dtype(data.dtype), out=None))]


def shuffle(data: NDArray, out: NDArray | None = None) -> NDArray:
    """Return the array with its first axis in random order."""
    target = _Target(data.context, (data.shape[0],), (), np.dtype(data.dtype), out)
    backend = backend_of(data.context)
    with backend.scope():
        shuffled = data.dense()[backend.asarray(np.argsort(_numbers(target, "random")))]
    return _store(shuffled, target)


class _Target(NamedTuple):
    """Where drawn numbers go: for each parameter (of shape ``head``) a block of shape ``tail``."""

    context: Context
    head: Shape
    tail: Shape
    dtype: DType
    out: NDArray | None


def _target(
    parameters: Sequence[Parameter],
    shape: ShapeLike,
    dtype: Any,
    ctx: Context | None,
    out: NDArray | None,
) -> _Target:
    arrays = [value for value in parameters if isinstance(value, NDArray)]
    if arrays and len(arrays) != len(parameters):
        kinds = [type(value).__name__ for value in parameters]
        raise ValueError(
            f"Distribution parameters must all have the same type, but got {', '.join(kinds)}"
        )
    for value in parameters:
        if not isinstance(value, (NDArray, int, float, np.number)):
            raise ValueError(
                "Distribution parameters must be either NDArray or numbers, but got "
                f"{type(value).__name__}"
            )
    kind = to_dtype(dtype if dtype is not None else out.dtype if out is not None else "float32")
    tail = () if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    if arrays:
        return _Target(arrays[0].context, arrays[0].shape, tail, kind, out)
    if shape is None:
        tail = out.shape if out is not None else (1,)
    context = out.context if out is not None else ctx or current_context()
    return _Target(context, (), tail, kind, out)


def _draw(
    method: str,
    parameters: Sequence[Parameter],
    shape: ShapeLike,
    dtype: Any,
    ctx: Context | None,
    out: NDArray | None,
) -> NDArray:
    target = _target(parameters, shape, dtype, ctx, out)
    if not target.head and target.dtype.kind == "f" and method in ("uniform", "normal"):
        raw = backend_of(target.context).empty(target.tail, target.dtype)
        low, high = (float(cast(float, value)) for value in parameters)
        getattr(device_random(target.context), method)(raw, low, high)
        return _store(raw, target)
    columns = [_columns(_host(value), target) for value in parameters]
    return _store(_numbers(target, method, *columns), target)


def _numbers(target: _Target, method: str, *parameters: Any) -> np.ndarray[Any, Any]:
    """Draw on the host, as float64 (whole numbers as int64)."""
    kind = np.dtype(np.int64 if method == "integers" else np.float64)
    shape = (*target.head, *target.tail)
    raw = device_random(target.context).draw(method, *parameters, shape=shape, dtype=kind)
    return backend_of(target.context).to_host(raw)


def _host(value: Parameter) -> np.ndarray[Any, Any]:
    if isinstance(value, NDArray):
        return value.asnumpy().astype(np.float64)
    return np.asarray(value)


def _columns(parameter: np.ndarray[Any, Any], target: _Target) -> np.ndarray[Any, Any]:
    """Give a parameter an axis of length 1 for each of the block that is drawn for it."""
    return parameter.reshape(parameter.shape + (1,) * len(target.tail))


def _store(values: Any, target: _Target) -> NDArray:
    if target.out is not None:
        if target.out.shape != values.shape:
            raise ShapeError(f"out has shape {target.out.shape}, expected {values.shape}")
        target.out[:] = NDArray(backend_of(target.context).asarray(values), target.context)
        return target.out
    raw = backend_of(target.context).asarray(values, target.dtype)
    return NDArray(raw, target.context)


_operators = OperatorNamespace(__name__, "_random_", make_function)
__getattr__, __dir__ = _operators.get, _operators.names
