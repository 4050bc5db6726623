"""Cells, and what reads sequences for them, under the path and the names that scripts use."""

from __future__ import annotations

from .base_cell import HybridRecurrentCell, RecurrentCell
from .base_cell import first_states as _get_begin_state
from .cells import GRUCell, LSTMCell, RNNCell
from .containers import BidirectionalCell, HybridSequentialRNNCell, SequentialRNNCell
from .modifiers import DropoutCell, ModifierCell, ResidualCell, ZoneoutCell
from .sequences import format_sequence as _format_sequence
from .sequences import mask_padding as _mask_sequence_variable_length
from .sequences import reverse_sequences as _reverse_sequences

__all__ = [
    "BidirectionalCell",
    "DropoutCell",
    "GRUCell",
    "HybridRecurrentCell",
    "HybridSequentialRNNCell",
    "LSTMCell",
    "ModifierCell",
    "RNNCell",
    "RecurrentCell",
    "ResidualCell",
    "SequentialRNNCell",
    "ZoneoutCell",
    "_format_sequence",
    "_get_begin_state",
    "_mask_sequence_variable_length",
    "_reverse_sequences",
]
