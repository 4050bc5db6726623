"""Parameters, trainers and blocks (``mx.gluon``)."""

from __future__ import annotations

from core.gluon import contrib, loss, model_zoo, nn, rnn, utils
from core.gluon.block import Block
from core.gluon.constant import Constant
from core.gluon.hybrid_block import HybridBlock
from core.gluon.parameter import DeferredInitializationError, Parameter
from core.gluon.parameter_dict import ParameterDict
from core.gluon.symbol_block import SymbolBlock
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
