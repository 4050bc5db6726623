"""Vocabularies: tokens of texts, how often they occur, and their indices."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable
from typing import Any

__all__ = ["UNKNOWN", "Vocabulary", "count_tokens_from_str"]

UNKNOWN = 0
"""The index of all tokens that are not known."""


class Vocabulary:
    """Numbers tokens: 0 is any unknown one, reserved ones follow, then the most frequent.

    Tokens of the same frequency come in their own order.

    Args:
        counter: how often each token occurs; None for a vocabulary of reserved tokens.
        most_freq_count: how many of the counter's tokens are taken at most.
        min_freq: how often a token must occur to be taken, 1 or more.
        unknown_token: what any unknown token is turned into.
        reserved_tokens: tokens that the vocabulary has in any case.

    Raises:
        AssertionError: reserved tokens twice, or with the unknown one among them; ``min_freq``
            below 1; no ``collections.Counter``.
    """

    def __init__(
        self,
        counter: Counter[Any] | None = None,
        most_freq_count: int | None = None,
        min_freq: int = 1,
        unknown_token: Hashable = "<unk>",
        reserved_tokens: list[Any] | None = None,
    ) -> None:
        first = [unknown_token, *(reserved_tokens or ())]
        if min_freq < 1:
            raise AssertionError(f"`min_freq` must be set to a positive value, got {min_freq}")
        if unknown_token in first[1:]:
            raise AssertionError("`reserved_token` cannot contain `unknown_token`.")
        if len(set(first)) < len(first):
            raise AssertionError("`reserved_tokens` cannot contain duplicate reserved tokens.")
        if not (counter is None or isinstance(counter, Counter)):
            raise AssertionError("`counter` must be an instance of collections.Counter.")
        frequent = sorted(counter) if counter else []
        if counter:
            frequent = [token for token in frequent if counter[token] >= min_freq]
            frequent.sort(key=counter.__getitem__, reverse=True)
        others = [token for token in frequent if token not in set(first)][:most_freq_count]
        self._unknown_token = unknown_token
        self._reserved_tokens = None if reserved_tokens is None else list(reserved_tokens)
        self._idx_to_token: list[Any] = [*first, *others]
        self._token_to_idx = {token: index for index, token in enumerate(self._idx_to_token)}

    def __len__(self) -> int:
        return len(self._idx_to_token)

    @property
    def token_to_idx(self) -> dict[Any, int]:
        """The index of each token."""
        return self._token_to_idx

    @property
    def idx_to_token(self) -> list[Any]:
        """The tokens in the order of their indices."""
        return self._idx_to_token

    @property
    def unknown_token(self) -> Any:
        """What any unknown token is turned into."""
        return self._unknown_token

    @property
    def reserved_tokens(self) -> list[Any] | None:
        """Tokens that the vocabulary has in any case; None if none were given."""
        return self._reserved_tokens

    def to_indices(self, tokens: Any) -> Any:
        """Return the index of a token, or a list of those of a list of tokens."""
        if isinstance(tokens, list):
            return [self._token_to_idx.get(token, UNKNOWN) for token in tokens]
        return self._token_to_idx.get(tokens, UNKNOWN)

    def to_tokens(self, indices: Any) -> Any:
        """Return the token of an index, or a list of those of a list of indices.

        Raises:
            ValueError: no such index.
        """
        if isinstance(indices, list):
            return [self.to_tokens(index) for index in indices]
        if not isinstance(indices, int) or indices >= len(self):
            raise ValueError(
                f"Token index {indices} in the provided `indices` is invalid; there are {len(self)}"
            )
        return self._idx_to_token[indices]


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
