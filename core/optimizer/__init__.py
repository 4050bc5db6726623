"""Optimizers, the updater that applies them, and learning rate schedules (``mx.optimizer``)."""

from __future__ import annotations

from . import contrib, lr_scheduler, optimizer
from .optimizer import *  # noqa: F403 - all that MXNet has under that path

__all__ = ["contrib", "lr_scheduler", "optimizer"]
__all__ += optimizer.__all__
