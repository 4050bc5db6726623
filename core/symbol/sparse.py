"""Operators that know sparse storage: ``mx.sym.sparse.dot``."""

from __future__ import annotations

from ..ops.namespace import OperatorNamespace
from .functions import make_function

_operators = OperatorNamespace(__name__, "_sparse_", make_function)
__getattr__, __dir__ = _operators.get, _operators.names
