"""Samplers under MXNet's import path (``mxnet.gluon.contrib.data``)."""

from __future__ import annotations

from ..data.sampler import IntervalSampler

__all__ = ["IntervalSampler"]
