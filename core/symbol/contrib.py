"""What MXNet counts as contributed: loops, branches, and operators such as ``MultiBoxPrior``."""

from __future__ import annotations

import math
from typing import Any, cast

from ..ndarray.zipfian import sample_zipfian
from ..ops.namespace import OperatorNamespace
from . import _internal
from .control_flow import cond, foreach, while_loop
from .creation import full
from .functions import make_function
from .random import uniform
from .symbol import Symbol

__all__ = ["adamw_update", "cond", "foreach", "mp_adamw_update", "while_loop"]


def rand_zipfian(
    true_classes: Symbol, num_sampled: int, range_max: int
) -> tuple[Symbol, Symbol, Symbol]:
    """Return classes drawn from a Zipfian distribution and expected counts.

    See ``mx.nd.contrib.rand_zipfian``.
    """
    limit = math.log(range_max + 1)
    exponents = uniform(0, limit, shape=(num_sampled,), dtype="float64")
    return sample_zipfian(exponents, true_classes, num_sampled, range_max)


def adamw_update(
    weight: Symbol,
    grad: Symbol,
    mean: Symbol,
    var: Symbol,
    rescale_grad: Symbol | float,
    lr: float,
    eta: float,
    **kwargs: Any,
) -> Symbol:
    """Compose a step of AdamW; the gradient's factor may be a number.

    See ``mx.nd.contrib.adamw_update``.
    """
    arrays = (weight, grad, mean, var, _factor(rescale_grad))
    return cast(Symbol, _internal._adamw_update(*arrays, lr=lr, eta=eta, **kwargs))


def mp_adamw_update(
    weight: Symbol,
    grad: Symbol,
    mean: Symbol,
    var: Symbol,
    weight32: Symbol,
    rescale_grad: Symbol | float,
    lr: float,
    eta: float,
    **kwargs: Any,
) -> Symbol:
    """Compose a step of AdamW on a float32 copy of a weight; see ``adamw_update``."""
    arrays = (weight, grad, mean, var, weight32, _factor(rescale_grad))
    return cast(Symbol, _internal._mp_adamw_update(*arrays, lr=lr, eta=eta, **kwargs))


def _factor(rescale_grad: Symbol | float) -> Symbol:
    if isinstance(rescale_grad, Symbol):
        return rescale_grad
    return full(shape=(1,), val=rescale_grad)


_operators = OperatorNamespace(__name__, "_contrib_", make_function)
__getattr__, __dir__ = _operators.get, _operators.names
