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
        epoch: its tag.
        optimizer_states: write these too, if there is an optimizer.
    """

    root: str
    epoch: int
    optimizer_states: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCheckpoint(OfModule):
    """Take parameters, and on request the optimizer's states, from a checkpoint's directory.

    May come before binding; states need an optimizer.

    Attributes:
        directory: the checkpoint.
        optimizer_states: take these too.
        allow_missing: parameters that it lacks keep their values.
        allow_extra: skip parameters that the module does not have.
        check_states: refuse an optimizer's states that cannot be read, though none are taken.
    """

    directory: str
    optimizer_states: bool = False
    allow_missing: bool = False
    allow_extra: bool = False
    check_states: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadVersion(OfModule):
    """Take the parameters of a checkpoint beside those in training, for predictions.

    ``version_replaced`` where the checkpoint there is another one.

    Attributes:
        version: what predictions call it by: the checkpoint's ETag, without the quotes.
        directory: the checkpoint.
        warm: bind what predictions run in, and run each once.
    """

    version: str
    directory: str
    warm: bool = False
