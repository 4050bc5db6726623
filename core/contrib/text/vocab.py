"""Vocabularies under MXNet's import path (``mxnet.contrib.text.vocab``)."""

from __future__ import annotations

from ...vocabulary import UNKNOWN, Vocabulary

__all__ = ["UNKNOWN", "Vocabulary"]
