"""Blocks under MXNet's import path (``mxnet.gluon.block``)."""

from __future__ import annotations

from .base_block import Block
from .base_parameter import DeferredInitializationError
from .hybrid_block import HybridBlock
from .symbol_block import SymbolBlock

__all__ = ["Block", "DeferredInitializationError", "HybridBlock", "SymbolBlock"]
