"""Recurrent networks (``mx.rnn``): cells, their checkpoints, batches of sentences."""

from __future__ import annotations

from core.rnn import io, rnn, rnn_cell
from core.rnn.base import BaseRNNCell, RNNParams
from core.rnn.cells import GRUCell, LSTMCell, RNNCell
from core.rnn.checkpoints import (
    do_rnn_checkpoint,
    load_rnn_checkpoint,
    rnn_unroll,
    save_rnn_checkpoint,
)
from core.rnn.containers import BidirectionalCell, SequentialRNNCell
from core.rnn.convolutional import BaseConvRNNCell, ConvGRUCell, ConvLSTMCell, ConvRNNCell
from core.rnn.fused import FusedRNNCell
from core.rnn.modifiers import DropoutCell, ModifierCell, ResidualCell, ZoneoutCell
from core.rnn.sentences import BucketSentenceIter, encode_sentences

__all__ = [
    "BaseConvRNNCell",
    "BaseRNNCell",
    "BidirectionalCell",
    "BucketSentenceIter",
    "ConvGRUCell",
    "ConvLSTMCell",
    "ConvRNNCell",
    "DropoutCell",
    "FusedRNNCell",
    "GRUCell",
    "LSTMCell",
    "ModifierCell",
    "RNNCell",
    "RNNParams",
    "ResidualCell",
    "SequentialRNNCell",
    "ZoneoutCell",
    "do_rnn_checkpoint",
    "encode_sentences",
    "io",
    "load_rnn_checkpoint",
    "rnn",
    "rnn_cell",
    "rnn_unroll",
    "save_rnn_checkpoint",
]
