"""The contents of MXNet's ``mx.contrib``.

Operators are in the namespaces with old names (``mx.contrib.nd``, ``mx.contrib.sym``).
"""

from __future__ import annotations

from ..ndarray import contrib as nd
from ..ndarray import contrib as ndarray
from ..symbol import contrib as sym
from ..symbol import contrib as symbol
from . import amp, autograd, io, onnx, quantization, tensorboard, text
from . import quantization as quant

__all__ = [
    "amp",
    "autograd",
    "io",
    "nd",
    "ndarray",
    "onnx",
    "quant",
    "quantization",
    "sym",
    "symbol",
    "tensorboard",
    "text",
]
