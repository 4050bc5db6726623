"""Counting of tokens under MXNet's import path (``mxnet.contrib.text.utils``)."""

from __future__ import annotations

from ...vocabulary import count_tokens_from_str

__all__ = ["count_tokens_from_str"]
