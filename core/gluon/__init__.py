"""Parameters, trainers and blocks (``mx.gluon``)."""

from __future__ import annotations

from core.gluon import contrib, loss, model_zoo, nn, rnn, utils
from core.gluon.block import Block, HybridBlock, SymbolBlock
from core.gluon.parameter import Constant, DeferredInitializationError, Parameter, ParameterDict
from core.gluon.trainer import Trainer

__all__ = [
    "Block",
    "Constant",
    "DeferredInitializationError",
    "HybridBlock",
    "Parameter",
    "ParameterDict",
    "SymbolBlock",
    "Trainer",
    "contrib",
    "loss",
    "model_zoo",
    "nn",
    "rnn",
    "utils",
]
