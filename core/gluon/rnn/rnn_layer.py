"""Layers under the path that scripts import them by (``mxnet.gluon.rnn.rnn_layer``)."""

from __future__ import annotations

from .layers import GRU, LSTM, RNN

__all__ = ["GRU", "LSTM", "RNN"]
