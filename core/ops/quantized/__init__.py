"""Operators on tensors of bytes (int8 and uint8): networks that MXNet's quantization has made."""

from __future__ import annotations

from . import arithmetic, conversion, entropy, fused, layers, shaping

__all__ = ["arithmetic", "conversion", "entropy", "fused", "layers", "shaping"]
