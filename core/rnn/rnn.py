"""Checkpoints of cells under the path that scripts import them by (``mxnet.rnn.rnn``)."""

from __future__ import annotations

from .checkpoints import (
    do_rnn_checkpoint,
    load_rnn_checkpoint,
    rnn_unroll,
    save_rnn_checkpoint,
)

__all__ = [
    "do_rnn_checkpoint",
    "load_rnn_checkpoint",
    "rnn_unroll",
    "save_rnn_checkpoint",
]
