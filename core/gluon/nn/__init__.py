"""Layers (``mx.gluon.nn``): dense ones and chains of blocks."""

from __future__ import annotations

from core.gluon.block import Block
from core.gluon.hybrid_block import HybridBlock
from core.gluon.nn.layers import Activation, Dense, Dropout, Flatten
from core.gluon.nn.sequential import HybridSequential, Sequential

__all__ = [
    "Activation",
    "Block",
    "Dense",
    "Dropout",
    "Flatten",
    "HybridBlock",
    "HybridSequential",
    "Sequential",
]
