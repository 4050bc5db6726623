"""Cells under the path that scripts use (``mx.rnn.rnn_cell``)."""

from __future__ import annotations

from core.rnn.base import BaseRNNCell, RNNParams
from core.rnn.cells import GRUCell, LSTMCell, RNNCell
from core.rnn.containers import BidirectionalCell, SequentialRNNCell
from core.rnn.convolutional import BaseConvRNNCell, ConvGRUCell, ConvLSTMCell, ConvRNNCell
from core.rnn.fused import FusedRNNCell
from core.rnn.modifiers import DropoutCell, ModifierCell, ResidualCell, ZoneoutCell

__all__ = [
    "BaseConvRNNCell",
    "BaseRNNCell",
    "BidirectionalCell",
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
]
