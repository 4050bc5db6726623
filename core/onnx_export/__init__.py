"""Write a symbol with its parameters as an ONNX model.

Needs the package ``onnx``. Each operator is converted by a small function, in the file of its
family. If ONNX cannot express a node, a ``ConversionError`` names it, its operator and the reason.
"""

from __future__ import annotations

from . import (
    attention,
    constants,
    convolution,
    dense,
    detection,
    elementwise,
    indexing,
    normalization,
    outputs,
    pooling,
    recurrent,
    reductions,
    sequences,
    shaping,
    suppression,
)
from .conversion import ConversionError
from .export import Export, export_onnx
from .graph import OPSET

__all__ = ["OPSET", "ConversionError", "Export", "export_onnx"]

# These modules register their converters when imported.
_FAMILIES = (
    attention,
    constants,
    convolution,
    dense,
    detection,
    elementwise,
    indexing,
    normalization,
    outputs,
    pooling,
    recurrent,
    reductions,
    sequences,
    shaping,
    suppression,
)
