"""Helpers under MXNet's import path (``mxnet.gluon.utils``)."""

from __future__ import annotations

from .hooks import HookHandle
from .splitting import clip_global_norm, split_and_load, split_data

__all__ = ["HookHandle", "clip_global_norm", "split_and_load", "split_data"]
