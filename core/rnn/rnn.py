"""Checkpoints of cells under the path that scripts import them by (``mxnet.rnn.rnn``)."""

from __future__ import annotations

from ..compat.rnn_unrolling import rnn_unroll
from .checkpoints import do_rnn_checkpoint, load_rnn_checkpoint, save_rnn_checkpoint

__all__ = [
    "do_rnn_checkpoint",
    "load_rnn_checkpoint",
    "rnn_unroll",
    "save_rnn_checkpoint",
]
