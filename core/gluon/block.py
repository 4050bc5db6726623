"""Blocks under the path that scripts import them by (``mxnet.gluon.block``)."""

from __future__ import annotations

from core.gluon.base_block import Block
from core.gluon.base_parameter import DeferredInitializationError
from core.gluon.hybrid_block import HybridBlock
from core.gluon.symbol_block import SymbolBlock

__all__ = ["Block", "DeferredInitializationError", "HybridBlock", "SymbolBlock"]
