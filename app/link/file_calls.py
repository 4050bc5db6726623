"""The calls on an executor that read or write the files of checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from app.link.call_base import OfModule

__all__ = ["LoadCheckpoint", "LoadVersion", "SaveCheckpoint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveCheckpoint(OfModule):
    """Write a checkpoint under a root; answers with its ``manifest``.

    Attributes:
        root: directory of the module's checkpoints.
        epoch, batch: its tag.
        optimizer_states: write these too, if there is an optimizer.
    """

    root: str
    epoch: int
    batch: int = 0
    optimizer_states: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCheckpoint(OfModule):
    """Load parameters, and on request the optimizer's states, from a checkpoint.

    May come before binding; states need an optimizer.

    Attributes:
        directory: directory of the checkpoint.
        optimizer_states: load these too.
        allow_missing: parameters that the checkpoint lacks keep their values.
        allow_extra: skip parameters that the module does not have.
        check_states: refuse states of an optimizer that cannot be read, even if they are not
            loaded.
    """

    directory: str
    optimizer_states: bool = False
    allow_missing: bool = False
    allow_extra: bool = False
    check_states: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadVersion(OfModule):
    """Load the parameters of a checkpoint for predictions, in addition to those in training.

    ``version_replaced`` if there is a different checkpoint now.

    Attributes:
        version: its name in predictions: the checkpoint's ETag without quotes.
        directory: directory of the checkpoint.
        warm: make the plans of predictions, and run each once.
    """

    version: str
    directory: str
    warm: bool = False
