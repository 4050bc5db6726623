"""Kinds of losses over all alignments of labels with data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..types import Array
from .kinds import Kind

__all__ = ["CTC", "Ctc", "Targets"]


class Targets(Protocol):
    """What a batch of examples is aligned with; arrays of int64, and one of bool."""

    @property
    def labels(self) -> Array:
        """(batch, labels); the blank follows the last label of an example."""

    @property
    def label_lengths(self) -> Array:
        """Number of labels of each example."""

    @property
    def data_lengths(self) -> Array:
        """Number of steps of each example."""

    @property
    def is_possible(self) -> Array:
        """Which examples have enough steps for their labels."""


class Ctc(Protocol):
    """``CTCLoss``."""

    def blank(self, channels: int) -> int:
        """Return the channel of the blank."""

    def targets(self, xp: Any, inputs: Sequence[Array]) -> Targets:
        """Return what the data are aligned with; raise OutOfRange for a label that has no
        channel."""


CTC = Kind[Ctc]("CTC loss")
