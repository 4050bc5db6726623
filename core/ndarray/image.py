"""``mx.nd.image``: the operators whose names begin with ``_image_``."""

from __future__ import annotations

from core.ndarray.functions import make_function
from core.ops.namespace import OperatorNamespace

_operators = OperatorNamespace(__name__, "_image_", make_function)
__getattr__, __dir__ = _operators.get, _operators.names
