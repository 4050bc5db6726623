"""Operators on tensors of bytes (int8 and uint8), for networks quantized by MXNet."""

from __future__ import annotations

from . import arithmetic, conversion, entropy, fused, layers, shaping

__all__ = ["arithmetic", "conversion", "entropy", "fused", "layers", "shaping"]
