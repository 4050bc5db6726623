"""Further blocks (``mx.gluon.contrib``)."""

from __future__ import annotations

from . import nn, rnn

__all__ = ["nn", "rnn"]
