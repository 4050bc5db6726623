"""Helpers under the name that scripts import them by (``mxnet.gluon.utils``)."""

from __future__ import annotations

from .hooks import HookHandle
from .splitting import clip_global_norm, split_and_load, split_data

__all__ = ["HookHandle", "clip_global_norm", "split_and_load", "split_data"]
