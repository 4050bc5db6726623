"""Vectors for the tokens of a vocabulary, read from local files (``mx.contrib.text.embedding``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ndarray import NDArray, zeros
from ...vocabulary import Vocabulary
from .pretrained import FastText, GloVe
from .token_embedding import TokenEmbedding as _TokenEmbedding
from .token_embedding import create, get_pretrained_file_names, register

__all__ = [
    "CompositeEmbedding",
    "CustomEmbedding",
    "FastText",
    "GloVe",
    "create",
    "get_pretrained_file_names",
    "register",
]


@register
class CustomEmbedding(_TokenEmbedding):
    """Vectors from a file, each line of which has a token and its numbers.

    If the file has a line for the unknown token, its vector is used for all unknown tokens.

    Args:
        pretrained_file_path: the file.
        elem_delim: the separator between a token and its numbers.
        encoding: of the file.
        init_unknown_vec: creates the vector of unknown tokens if the file has none.
        vocabulary: the tokens to keep; None for all tokens of the file.
        **kwargs: those of ``Vocabulary``.
    """

    def __init__(
        self,
        pretrained_file_path: str,
        elem_delim: str = " ",
        encoding: str = "utf8",
        init_unknown_vec: Callable[..., NDArray] = zeros,
        vocabulary: Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._load_embedding(pretrained_file_path, elem_delim, init_unknown_vec, encoding)
        if vocabulary is not None:
            self._take(vocabulary, [self])


class CompositeEmbedding(_TokenEmbedding):
    """Concatenated vectors of several embeddings, for the tokens of a vocabulary.

    Args:
        vocabulary: the tokens.
        token_embeddings: one embedding or a list.
    """

    def __init__(
        self, vocabulary: Vocabulary, token_embeddings: _TokenEmbedding | list[_TokenEmbedding]
    ) -> None:
        super().__init__()
        given = token_embeddings if isinstance(token_embeddings, list) else [token_embeddings]
        if not all(isinstance(one, _TokenEmbedding) for one in given):
            raise AssertionError("`token_embeddings` must be an embedding or a list of them.")
        self._take(vocabulary, given)
