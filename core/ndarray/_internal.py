"""``mx.nd._internal``: the operators whose names begin with an underscore."""

from __future__ import annotations

from core.ndarray.functions import make_function
from core.ops.namespace import INTERNAL, OperatorNamespace

_operators = OperatorNamespace(__name__, INTERNAL, make_function)
__getattr__, __dir__ = _operators.get, _operators.names
