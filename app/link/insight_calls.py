"""The calls on an executor of those who look into a module: its graph, its times, its numbers."""

from __future__ import annotations

from dataclasses import dataclass

from app.link.call_base import OfModule

__all__ = ["DescribeGraph", "ProfileModule", "SummarizeParams"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGraph(OfModule):
    """Ask for the ``nodes`` and ``outputs`` of a bucket's graph, with shapes if it is bound.

    Answered as ``packed_json``.

    Attributes:
        bucket: its key; None for the default one.
    """

    bucket: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileModule(OfModule):
    """Run some passes as predictions do, between others' calls; answer what their steps took.

    Attributes:
        bucket: its key; None for the default one.
        batch: examples of a pass; None for as many as bound.
        runs: passes at most; there are fewer where they take long.
    """

    bucket: str | None = None
    batch: int | None = None
    runs: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeParams(OfModule):
    """Ask for figures of all parameters, of those in training or of a checkpoint.

    Answered as ``packed_json``.

    Attributes:
        directory: the checkpoint; None for the parameters in training.
        against: another checkpoint, to compare with.
        bins: of the histograms.
    """

    directory: str | None = None
    against: str | None = None
    bins: int = 32
