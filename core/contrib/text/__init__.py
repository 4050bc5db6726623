"""Vocabularies and embeddings of text (``mx.contrib.text``); nothing is downloaded."""

from __future__ import annotations

from . import embedding, utils, vocab

__all__ = ["embedding", "utils", "vocab"]
