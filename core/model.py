"""Checkpoints under the name that scripts import them by (``mxnet.model``)."""

from __future__ import annotations

from core.checkpoint import BatchEndParam, load_checkpoint, load_params, save_checkpoint

__all__ = ["BatchEndParam", "load_checkpoint", "load_params", "save_checkpoint"]
