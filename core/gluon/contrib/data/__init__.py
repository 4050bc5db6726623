"""Samplers and texts under MXNet's import path (``mxnet.gluon.contrib.data``)."""

from __future__ import annotations

from ...data.sampler import IntervalSampler
from . import text

__all__ = ["IntervalSampler", "text"]
