"""Optimizers under the path that scripts import them by (``mxnet.optimizer.optimizer``)."""

from __future__ import annotations

from .adaptive import AdaDelta, AdaGrad, Adam, Adamax, Nadam, RMSProp
from .base import Optimizer, create, register
from .follow_leader import FTML, Ftrl
from .layerwise import LAMB, LARS, LBSGD
from .probe import Test
from .sgd import DCASGD, NAG, SGD, SGLD, Signum, ccSGD
from .updater import Updater, get_updater

__all__ = [
    "DCASGD",
    "FTML",
    "LAMB",
    "LARS",
    "LBSGD",
    "NAG",
    "SGD",
    "SGLD",
    "AdaDelta",
    "AdaGrad",
    "Adam",
    "Adamax",
    "Ftrl",
    "Nadam",
    "Optimizer",
    "RMSProp",
    "Signum",
    "Test",
    "Updater",
    "ccSGD",
    "create",
    "get_updater",
    "register",
]
