"""Linear algebra: ``mx.sym.linalg.gemm2``."""

from __future__ import annotations

from ..ops.namespace import OperatorNamespace
from .functions import make_function

_operators = OperatorNamespace(__name__, "_linalg_", make_function)
__getattr__, __dir__ = _operators.get, _operators.names
