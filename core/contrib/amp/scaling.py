"""Trainers whose losses are scaled, so that gradients in float16 do not vanish."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ... import optimizer as opt
from ...errors import StageError
from ...gluon import Trainer
from .loss_scaler import LossScaler

__all__ = ["init_trainer", "scale_loss", "scaler_of_process", "start", "unscale"]


class _State:
    """Whether ``init`` was called, and the scaler that losses and the first trainer share."""

    scaler: LossScaler | None = None
    is_taken: bool = False


def scaler_of_process() -> LossScaler | None:
    """Return the scaler of the process; None before ``init``."""
    return _State.scaler


def start() -> LossScaler:
    """Create the scaler of the process."""
    _State.scaler = LossScaler()
    return _State.scaler


def init_trainer(optimizer_or_trainer: Any) -> None:
    """Let a trainer skip steps whose gradients overflow, and scale its losses accordingly.

    Raises:
        StageError: ``init`` has not been called. TypeError: not a ``Trainer``.
    """
    if _State.scaler is None:
        raise StageError("AMP not initialized, did you forget to call amp.init()?")
    trainer = _trainer(optimizer_or_trainer)
    scaler = LossScaler() if _State.is_taken else _State.scaler
    _State.is_taken = True
    trainer._amp_loss_scaler = scaler
    trainer._amp_original_scale = trainer._scale


@contextmanager
def scale_loss(loss: Any, optimizer_or_trainer: Any) -> Iterator[Any]:
    """Provide a loss, or a list of losses, multiplied by the present factor.

    Raises:
        StageError: ``init_trainer`` has not been called.
    """
    trainer = _trainer(optimizer_or_trainer)
    scaler = trainer._amp_loss_scaler
    if scaler is None:
        raise StageError("Loss scaler is not initialized, did you forget to call init_trainer()?")
    trainer._scale = trainer._amp_original_scale / scaler.loss_scale
    if isinstance(loss, (list, tuple)):
        yield [one * scaler.loss_scale for one in loss]
    else:
        yield loss * scaler.loss_scale


def unscale(optimizer_or_trainer: Any) -> None:
    """Divide the gradients by the factor of the loss now, such as before clipping them."""
    trainer = _trainer(optimizer_or_trainer)
    for param in trainer._params:
        for grad in param.list_grad() if param.grad_req != "null" else ():
            grad[:] = grad * trainer._scale
    trainer._scale = 1.0


def _trainer(given: Any) -> Trainer:
    if isinstance(given, Trainer):
        return given
    if isinstance(given, opt.Optimizer):
        raise TypeError("AMP is currently only compatible with Gluon Trainer")
    raise TypeError(f"expected a Gluon Trainer, got {type(given).__name__}")
