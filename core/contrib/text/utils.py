"""Counting of tokens in a text (``mx.contrib.text.utils``)."""

from __future__ import annotations

import re
from collections import Counter

__all__ = ["count_tokens_from_str"]


def count_tokens_from_str(
    source_str: str,
    token_delim: str = " ",
    seq_delim: str = "\n",
    to_lower: bool = False,
    counter_to_update: Counter[str] | None = None,
) -> Counter[str]:
    """Count the tokens of a text.

    Args:
        source_str: the text.
        token_delim, seq_delim: regular expressions of the separators of tokens and sequences.
        to_lower: convert tokens to lower case.
        counter_to_update: the counter to update and return; None for a new one.
    """
    counter: Counter[str] = Counter() if counter_to_update is None else counter_to_update
    tokens = (token for token in re.split(f"{token_delim}|{seq_delim}", source_str) if token)
    counter.update(token.lower() if to_lower else token for token in tokens)
    return counter
