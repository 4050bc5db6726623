"""Helpers of iterators under MXNet's import path (``mxnet.io.utils``)."""

from __future__ import annotations

from .ndarray_iter import _init_data

__all__ = ["_init_data"]
