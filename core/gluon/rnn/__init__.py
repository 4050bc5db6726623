"""Recurrent layers (``mx.gluon.rnn``)."""

from __future__ import annotations

from .layers import GRU, LSTM, RNN

__all__ = ["GRU", "LSTM", "RNN"]
