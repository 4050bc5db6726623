"""Parameters, trainers and saved models as blocks (``mx.gluon``)."""

from __future__ import annotations

from core.gluon import splitting as utils
from core.gluon.constant import Constant
from core.gluon.parameter import DeferredInitializationError, Parameter
from core.gluon.parameter_dict import ParameterDict
from core.gluon.symbol_block import SymbolBlock
from core.gluon.trainer import Trainer

__all__ = [
    "Constant",
    "DeferredInitializationError",
    "Parameter",
    "ParameterDict",
    "SymbolBlock",
    "Trainer",
    "utils",
]
