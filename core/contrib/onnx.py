"""The export to ONNX under MXNet's older path (``mx.contrib.onnx``)."""

from __future__ import annotations

from ..onnx import __getattr__ as __getattr__
from ..onnx import export_model, get_operator_support

__all__ = ["export_model", "get_operator_support"]
