"""What MXNet counts as contributed: loops, branches, and operators such as ``MultiBoxPrior``."""

from __future__ import annotations

import math

from core.ndarray.zipfian import counted
from core.ops.namespace import OperatorNamespace
from core.symbol.control_flow import cond, foreach, while_loop
from core.symbol.functions import make_function
from core.symbol.random import uniform
from core.symbol.symbol import Symbol

__all__ = ["cond", "foreach", "while_loop"]


def rand_zipfian(
    true_classes: Symbol, num_sampled: int, range_max: int
) -> tuple[Symbol, Symbol, Symbol]:
    """Return classes drawn from a Zipfian distribution and expected counts.

    See ``mx.nd.contrib.rand_zipfian``.
    """
    limit = math.log(range_max + 1)
    exponents = uniform(0, limit, shape=(num_sampled,), dtype="float64")
    return counted(exponents, true_classes, num_sampled, range_max)


_operators = OperatorNamespace(__name__, "_contrib_", make_function)
__getattr__, __dir__ = _operators.get, _operators.names
