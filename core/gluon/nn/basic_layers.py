"""Common layers under MXNet's import path (``mxnet.gluon.nn.basic_layers``)."""

from __future__ import annotations

from ..base_block import Block
from ..hybrid_block import HybridBlock
from .activations import Activation
from .lambdas import HybridLambda, Lambda
from .layers import Dense, Dropout, Embedding, Flatten
from .normalization import BatchNorm, BatchNormReLU, GroupNorm, InstanceNorm, LayerNorm
from .sequential import HybridSequential, Sequential

__all__ = [
    "Activation",
    "BatchNorm",
    "BatchNormReLU",
    "Block",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "GroupNorm",
    "HybridBlock",
    "HybridLambda",
    "HybridSequential",
    "InstanceNorm",
    "Lambda",
    "LayerNorm",
    "Sequential",
]
