"""The operators of ``mx.sym`` themselves, without its other functions."""

from __future__ import annotations

from ..ops.namespace import PUBLIC, OperatorNamespace
from .functions import make_function

_operators = OperatorNamespace(__name__, PUBLIC, make_function)
__getattr__, __dir__ = _operators.get, _operators.names
