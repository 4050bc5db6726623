"""Calls that inspect a module: its graph, timings, and statistics of its parameters."""

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
    """Run some passes as predictions do; answers the time of each step. Other calls run in between.

    Attributes:
        bucket: its key; None for the default one.
        batch: examples per pass; None for the bound batch size.
        runs: limit on passes; there are fewer if they take long.
    """

    bucket: str | None = None
    batch: int | None = None
    runs: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeParams(OfModule):
    """Ask for statistics of all parameters, those in training or those of a checkpoint.

    Answered as ``packed_json``.

    Attributes:
        directory: the checkpoint; None for the parameters in training.
        against: directory of another checkpoint to compare with.
        bins: number of bins in the histograms.
    """

    directory: str | None = None
    against: str | None = None
    bins: int = 32
