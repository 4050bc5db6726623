"""Random symbols: ``mx.sym.random.uniform(0, 1, shape=(2, 3))``.

Parameters are numbers, for one distribution, or symbols, for one distribution an element; then
``shape`` is that of the samples of each.
"""

from __future__ import annotations

from typing import Any

from ..ops import get_operator
from ..ops.namespace import OperatorNamespace
from ..ops.signature import argument_names
from .functions import make_function
from .symbol import Symbol

__all__ = [
    "exponential",
    "gamma",
    "generalized_negative_binomial",
    "multinomial",
    "negative_binomial",
    "normal",
    "poisson",
    "randint",
    "randn",
    "shuffle",
    "uniform",
]

_operators = OperatorNamespace(__name__, "_random_", make_function)
__getattr__, __dir__ = _operators.get, _operators.names


def uniform(low: Any = 0, high: Any = 1, shape: Any = None, dtype: Any = None, **kw: Any) -> Symbol:
    """Return samples of the uniform distribution over [low, high)."""
    return _sample("uniform", {"low": low, "high": high}, shape, dtype, kw)


def normal(loc: Any = 0, scale: Any = 1, shape: Any = None, dtype: Any = None, **kw: Any) -> Symbol:
    """Return samples of the normal distribution with mean ``loc`` and deviation ``scale``."""
    return _sample("normal", {"loc": loc, "scale": scale}, shape, dtype, kw)


def randn(*shape: int, loc: Any = 0, scale: Any = 1, dtype: Any = None, **kw: Any) -> Symbol:
    """As ``normal``, with the shape as positional arguments."""
    return normal(loc, scale, shape, dtype, **kw)


def poisson(lam: Any = 1, shape: Any = None, dtype: Any = None, **kw: Any) -> Symbol:
    """Return samples of the Poisson distribution with rate ``lam``, as floats."""
    return _sample("poisson", {"lam": lam}, shape, dtype, kw)


def exponential(scale: Any = 1, shape: Any = None, dtype: Any = None, **kw: Any) -> Symbol:
    """Return samples of the exponential distribution with mean ``scale``."""
    # The operator takes the rate.
    return _sample("exponential", {"lam": 1.0 / scale}, shape, dtype, kw)


def gamma(alpha: Any = 1, beta: Any = 1, shape: Any = None, dtype: Any = None, **kw: Any) -> Symbol:
    """Return samples of the gamma distribution with shape ``alpha`` and scale ``beta``."""
    return _sample("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, kw)


def negative_binomial(
    k: Any = 1, p: Any = 1, shape: Any = None, dtype: Any = None, **kw: Any
) -> Symbol:
    """Return samples of the failures before ``k`` successes of probability ``p``, as floats."""
    return _sample("negative_binomial", {"k": k, "p": p}, shape, dtype, kw)


def generalized_negative_binomial(
    mu: Any = 1, alpha: Any = 1, shape: Any = None, dtype: Any = None, **kw: Any
) -> Symbol:
    """Return samples of the negative binomial with mean ``mu`` and dispersion ``alpha``."""
    return _sample("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, kw)


def randint(low: int, high: int, shape: Any = None, dtype: Any = None, **kw: Any) -> Symbol:
    """Return integers of [low, high), each as likely as the others."""
    return _call("_random_randint", shape, dtype, {"low": low, "high": high, **kw})


def multinomial(
    data: Symbol, shape: Any = None, get_prob: bool = True, dtype: Any = "int32", **kw: Any
) -> Symbol:
    """Return indices drawn with the probabilities in the last axis of ``data``.

    With ``get_prob`` their log-likelihood is a second output.
    """
    return _call("_sample_multinomial", shape, dtype, {"data": data, "get_prob": get_prob, **kw})


def shuffle(data: Symbol, **kw: Any) -> Symbol:
    """Return ``data`` with its first axis in random order."""
    return _call("_shuffle", None, None, {"data": data, **kw})


def _sample(
    distribution: str, parameters: dict[str, Any], shape: Any, dtype: Any, kw: dict[str, Any]
) -> Symbol:
    """Sample one distribution, or with symbols as parameters one for each element.

    Raises:
        TypeError: the parameters are neither all numbers nor all symbols.
    """
    kinds = {isinstance(value, Symbol) for value in parameters.values()}
    if len(kinds) > 1:
        given = ", ".join(f"{name} {type(value)}" for name, value in parameters.items())
        raise TypeError(
            f"{distribution}: parameters must be all numbers or all symbols; got {given}"
        )
    if kinds != {True}:
        return _call(f"_random_{distribution}", shape, dtype, {**parameters, **kw})
    # The operator calls loc and scale of the normal distribution mu and sigma.
    inputs = argument_names(get_operator(f"_sample_{distribution}"))
    named = dict(zip(inputs, parameters.values(), strict=True))
    return _call(f"_sample_{distribution}", shape, dtype, {**named, **kw})


def _call(function: str, shape: Any, dtype: Any, kwargs: dict[str, Any]) -> Symbol:
    """Call an operator, leaving out what was not given."""
    for name, value in (("shape", shape), ("dtype", dtype)):
        if value is not None:
            kwargs[name] = value
    return Symbol._call_operator(function, **kwargs)
