"""The events of a training run; a handler derives from those that it handles."""

from __future__ import annotations

from typing import Any

__all__ = [
    "BatchBegin",
    "BatchEnd",
    "EpochBegin",
    "EpochEnd",
    "EventHandler",
    "TrainBegin",
    "TrainEnd",
    "check_event_handlers",
]


class EventHandler:
    """Base of all handlers. Those with a lower ``priority``, by default 0, are called first."""


class TrainBegin(EventHandler):
    """Called once, before the first epoch."""

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Handle the event."""


class TrainEnd(EventHandler):
    """Called once, after the last epoch."""

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Handle the event."""


class EpochBegin(EventHandler):
    """Called before each epoch, and before each evaluation."""

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Handle the event."""


class EpochEnd(EventHandler):
    """Called after each epoch, and after each evaluation."""

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool | None:
        """Handle the event; return True to end the training."""
        return False


class BatchBegin(EventHandler):
    """Called before each batch, with it as ``batch``."""

    def batch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Handle the event."""


class BatchEnd(EventHandler):
    """Called after each batch, with ``batch``, and per device ``pred``, ``label`` and ``loss``."""

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool | None:
        """Handle the event; return True to end the training."""
        return False


def check_event_handlers(handlers: Any) -> list[EventHandler]:
    """Return one handler, several or None as a new list.

    Raises:
        ValueError: something is not a handler.
    """
    given = [handlers] if isinstance(handlers, EventHandler) else list(handlers or ())
    for handler in given:
        if not isinstance(handler, EventHandler):
            raise ValueError(
                "handlers must be an EventHandler or a list of EventHandler, got: "
                f"{type(handler).__name__}"
            )
    return given
