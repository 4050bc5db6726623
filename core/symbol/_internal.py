"""Operators whose names begin with an underscore: ``mx.sym._internal._plus_scalar``."""

from __future__ import annotations

from core.ops.namespace import INTERNAL, OperatorNamespace
from core.symbol.functions import make_function

_operators = OperatorNamespace(__name__, INTERNAL, make_function)
__getattr__, __dir__ = _operators.get, _operators.names
