"""``mx.nd._internal``: the operators whose names begin with an underscore."""

from __future__ import annotations

from ..ops.namespace import INTERNAL, OperatorNamespace
from .functions import make_function

_operators = OperatorNamespace(__name__, INTERNAL, make_function)
__getattr__, __dir__ = _operators.get, _operators.names
