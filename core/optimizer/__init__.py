"""Optimizers, the updater that applies them, and learning rate schedules (``mx.optimizer``)."""

from __future__ import annotations

from core.optimizer import lr_scheduler
from core.optimizer.adaptive import AdaGrad, Adam, RMSProp
from core.optimizer.base import Optimizer, create, register
from core.optimizer.sgd import NAG, SGD, ccSGD
from core.optimizer.updater import Updater, get_updater

__all__ = [
    "NAG",
    "SGD",
    "AdaGrad",
    "Adam",
    "Optimizer",
    "RMSProp",
    "Updater",
    "ccSGD",
    "create",
    "get_updater",
    "lr_scheduler",
    "register",
]
