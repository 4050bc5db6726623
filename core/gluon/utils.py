"""Helpers under MXNet's import path (``mxnet.gluon.utils``)."""

from __future__ import annotations

from .fetching import check_sha1, download
from .hooks import HookHandle
from .splitting import clip_global_norm, split_and_load, split_data

__all__ = [
    "HookHandle",
    "check_sha1",
    "clip_global_norm",
    "download",
    "split_and_load",
    "split_data",
]
