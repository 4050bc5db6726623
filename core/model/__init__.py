"""Checkpoints and the old ``FeedForward`` model, where scripts import them from (``mx.model``)."""

from __future__ import annotations

from ..checkpoint import BatchEndParam, load_checkpoint, load_params, save_checkpoint
from ..compat.model_stores import (
    _create_kvstore,
    _create_sparse_kvstore,
    _initialize_kvstore,
    _multiple_callbacks,
    _update_params,
    _update_params_on_kvstore,
)
from .feed_forward import FeedForward

__all__ = [
    "BatchEndParam",
    "FeedForward",
    "_create_kvstore",
    "_create_sparse_kvstore",
    "_initialize_kvstore",
    "_multiple_callbacks",
    "_update_params",
    "_update_params_on_kvstore",
    "load_checkpoint",
    "load_params",
    "save_checkpoint",
]
