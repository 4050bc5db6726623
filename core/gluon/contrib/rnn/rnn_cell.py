"""Cells under the path that scripts use (``mx.gluon.contrib.rnn.rnn_cell``)."""

from __future__ import annotations

from .dynamic_unroll import dynamic_unroll
from .projected import LSTMPCell
from .variational_dropout import VariationalDropoutCell

__all__ = ["LSTMPCell", "VariationalDropoutCell", "dynamic_unroll"]
