"""Write a symbol with its parameters as an ONNX model.

Needs the package ``onnx``. Each operator's form is a small function, in the file of its family;
what ONNX cannot say is a ``ConversionError`` that names the node, its operator and why.
"""

from __future__ import annotations

from . import (
    constants,
    convolution,
    dense,
    elementwise,
    indexing,
    normalization,
    outputs,
    pooling,
    recurrent,
    reductions,
    sequences,
    shaping,
)
from .conversion import ConversionError
from .export import Export, export_onnx
from .graph import OPSET

__all__ = ["OPSET", "ConversionError", "Export", "export_onnx"]

# Imported for the converters that they declare.
_FAMILIES = (
    constants,
    convolution,
    dense,
    elementwise,
    indexing,
    normalization,
    outputs,
    pooling,
    recurrent,
    reductions,
    sequences,
    shaping,
)
