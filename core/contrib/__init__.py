"""What MXNet has in ``mx.contrib``.

Operators are under the old name of their namespaces (``mx.contrib.nd``, ``mx.contrib.sym``).
"""

from __future__ import annotations

from core.contrib import autograd, quantization, tensorboard, text
from core.ndarray import contrib as nd
from core.ndarray import contrib as ndarray
from core.symbol import contrib as sym
from core.symbol import contrib as symbol

__all__ = ["autograd", "nd", "ndarray", "quantization", "sym", "symbol", "tensorboard", "text"]
