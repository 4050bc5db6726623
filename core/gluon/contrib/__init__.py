"""Additional blocks (``mx.gluon.contrib``)."""

from __future__ import annotations

from . import cnn, data, estimator, nn, rnn

__all__ = ["cnn", "data", "estimator", "nn", "rnn"]
