"""Optimizers, the updater that applies them, and learning rate schedules (``mx.optimizer``)."""

from __future__ import annotations

from core.optimizer import contrib, lr_scheduler, optimizer
from core.optimizer.adaptive import AdaDelta, AdaGrad, Adam, Adamax, Nadam, RMSProp
from core.optimizer.base import Optimizer, create, register
from core.optimizer.follow_leader import FTML, Ftrl
from core.optimizer.layerwise import LAMB, LARS, LBSGD
from core.optimizer.probe import Test
from core.optimizer.sgd import DCASGD, NAG, SGD, SGLD, Signum, ccSGD
from core.optimizer.updater import Updater, get_updater

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
    "contrib",
    "create",
    "get_updater",
    "lr_scheduler",
    "optimizer",
    "register",
]
