"""Batches of sentences under the path that scripts use (``mx.rnn.io``)."""

from __future__ import annotations

from .sentences import BucketSentenceIter, encode_sentences

__all__ = ["BucketSentenceIter", "encode_sentences"]
