"""Samplers under the path that scripts import them by (``mxnet.gluon.contrib.data``)."""

from __future__ import annotations

from ..data.sampler import IntervalSampler

__all__ = ["IntervalSampler"]
