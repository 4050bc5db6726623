"""Vocabularies with a vector for each token, read from a file."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ...ndarray import NDArray, array, zeros
from ...registry import ClassRegistry
from ...vocabulary import UNKNOWN, Vocabulary

__all__ = ["TokenEmbedding", "create", "get_pretrained_file_names", "register"]

Row: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]


class TokenEmbedding(Vocabulary):
    """A vocabulary with a vector for each token. Arguments are those of ``Vocabulary``."""

    pretrained_file_names: ClassVar[tuple[str, ...]] = ()
    """Names of the files that are published."""

    pretrained_file_name_sha1: ClassVar[dict[str, str]] = {}
    """MXNet's attribute, in which classes of scripts name their files."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._vec_len = 0
        self._idx_to_vec: NDArray | None = None

    @property
    def vec_len(self) -> int:
        """Length of the vectors."""
        return self._vec_len

    @property
    def idx_to_vec(self) -> NDArray | None:
        """All vectors, in the order of the tokens' indices."""
        return self._idx_to_vec

    def get_vecs_by_tokens(self, tokens: Any, lower_case_backup: bool = False) -> NDArray:
        """Return the vector of a token, or a matrix of those of a list of tokens.

        Args:
            tokens: one token or a list.
            lower_case_backup: look an unknown token up in lower case, too.
        """
        named = tokens if isinstance(tokens, list) else [tokens]
        if lower_case_backup:
            named = [token if token in self._token_to_idx else token.lower() for token in named]
        vectors = array(self._vectors().asnumpy()[self.to_indices(named)])
        return vectors if isinstance(tokens, list) else vectors[0]

    def update_token_vectors(self, tokens: Any, new_vectors: NDArray) -> None:
        """Replace the vectors of tokens.

        Args:
            tokens: one token or a list.
            new_vectors: a matrix with a row for each token, or a vector for a single token.

        Raises:
            AssertionError: wrong shape.
            ValueError: an unknown token. The placeholder of unknown tokens is allowed.
        """
        vectors = self._vectors()
        named = tokens if isinstance(tokens, list) else [tokens]
        ranks = (1, 2) if len(named) == 1 else (2,)
        if not isinstance(new_vectors, NDArray) or len(new_vectors.shape) not in ranks:
            raise AssertionError(
                f"`new_vectors` must be an NDArray with {' or '.join(map(str, ranks))} dimensions"
            )
        rows = new_vectors.reshape((1, -1)) if len(new_vectors.shape) == 1 else new_vectors
        if rows.shape != (len(named), self.vec_len):
            raise AssertionError(
                f"`new_vectors` has shape {new_vectors.shape}; {len(named)} tokens have vectors "
                f"of {self.vec_len}"
            )
        unknown = [token for token in named if token not in self._token_to_idx]
        if unknown:
            raise ValueError(
                f"Token {unknown[0]} is unknown. To change the vector of unknown tokens, name "
                f"{self.unknown_token!r}."
            )
        for token, row in zip(named, rows, strict=True):
            vectors[self._token_to_idx[token]] = row

    def _vectors(self) -> NDArray:
        if self._idx_to_vec is None:
            raise AssertionError("The property `idx_to_vec` has not been properly set.")
        return self._idx_to_vec

    def _load_embedding(
        self,
        pretrained_file_path: str,
        elem_delim: str,
        init_unknown_vec: Callable[..., NDArray],
        encoding: str = "utf8",
    ) -> None:
        """Add the tokens of a file, one per line, with their vectors.

        Raises:
            ValueError: there is no such file.
            AssertionError: a line has no vector, or one of another length.
        """
        path = Path(pretrained_file_path).expanduser()
        if not path.is_file():
            raise ValueError(
                "`pretrained_file_path` must be a valid path to the pre-trained token embedding "
                f"file; there is none at {path}"
            )
        logging.info("Loading pre-trained token embedding vectors from %s", path)
        unknown: Row | None = None
        rows: list[Row] = []
        for where, token, row in _read_vectors(path, elem_delim, encoding):
            if token == self.unknown_token and unknown is None:
                unknown = row
            elif token in self._token_to_idx:
                warnings.warn(f"{where} {token} occurs a second time; skipped.", stacklevel=3)
            elif len(row) == 1:  # fastText's files begin with the counts of tokens and elements
                warnings.warn(f"{where} {token} is likely a header; skipped.", stacklevel=3)
            elif rows and len(row) != len(rows[0]):
                raise AssertionError(
                    f"{where} {token} has a vector of {len(row)}, others have {len(rows[0])}. "
                    "Dimensions of all the tokens must be the same."
                )
            else:
                rows.append(row)
                self._token_to_idx[token] = len(self._idx_to_token)
                self._idx_to_token.append(token)
        self._vec_len = len(rows[0]) if rows else 0
        filled = np.zeros((len(self), self._vec_len), np.float32)
        filled[len(self) - len(rows) :] = np.reshape(rows, (-1, self._vec_len))
        self._idx_to_vec = array(filled)
        self._idx_to_vec[UNKNOWN] = (
            init_unknown_vec(shape=self._vec_len) if unknown is None else array(unknown)
        )

    def _take(self, vocabulary: Vocabulary, embeddings: Sequence[TokenEmbedding]) -> None:
        """Adopt a vocabulary, with the concatenated vectors of several embeddings."""
        if not isinstance(vocabulary, Vocabulary):
            raise AssertionError("The argument `vocabulary` must be an instance of Vocabulary.")
        width = sum(embedding.vec_len for embedding in embeddings)
        vectors = zeros((len(vocabulary), width))
        start = 0
        for embedding in embeddings:
            stop = start + embedding.vec_len
            vectors[0, start:stop] = embedding._vectors()[UNKNOWN]
            if len(vocabulary) > 1:
                named = embedding.get_vecs_by_tokens(vocabulary.idx_to_token[1:])
                vectors[1:, start:stop] = named
            start = stop
        self._vec_len, self._idx_to_vec = width, vectors
        reserved = vocabulary.reserved_tokens
        self._unknown_token = vocabulary.unknown_token
        self._reserved_tokens = None if reserved is None else list(reserved)
        self._idx_to_token = list(vocabulary.idx_to_token)
        self._token_to_idx = dict(vocabulary.token_to_idx)


_embeddings = ClassRegistry(TokenEmbedding, "token embedding")
register = _embeddings.register


def create(embedding_name: str, **kwargs: Any) -> TokenEmbedding:
    """Return a registered embedding, by name in any case."""
    return _embeddings.create(embedding_name, **kwargs)


def get_pretrained_file_names(embedding_name: str | None = None) -> Any:
    """Return the files of a registered embedding, or a dict with those of all embeddings.

    Raises:
        KeyError: there is no such embedding.
    """
    known = {
        name: list(kind.pretrained_file_names or kind.pretrained_file_name_sha1)
        for name, kind in _embeddings.classes().items()
    }
    if embedding_name is None:
        return known
    if embedding_name not in known:
        raise KeyError(f"Cannot find `embedding_name` {embedding_name}; there are {list(known)}")
    return known[embedding_name]


def _read_vectors(path: Path, elem_delim: str, encoding: str) -> Iterator[tuple[str, str, Row]]:
    """Yield for each line of a file its location for messages, its token and its vector.

    Raises:
        AssertionError: a line has no vector.
        ValueError: something in a vector is not a number.
    """
    with path.open(encoding=encoding, newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            token, *elements = line.rstrip().split(elem_delim)
            where = f"At line {number} of the pre-trained text embedding file {path}:"
            if not elements:
                raise AssertionError(f"{where} there is no vector.")
            try:
                row = np.array(elements, np.float32)
            except ValueError:
                # Some tokens of GloVe's largest file contain the delimiter: ". . ." for example.
                start = _first_number(elements)
                if start == len(elements):
                    raise ValueError(f"{where} {token} is followed by no numbers.") from None
                token = elem_delim.join([token, *elements[:start]])
                row = np.array(elements[start:], np.float32)
            yield where, token, row


def _first_number(elements: Sequence[str]) -> int:
    """Return the position from which all elements are numbers."""
    for position in range(len(elements), 0, -1):
        try:
            float(elements[position - 1])
        except ValueError:
            return position
    return 0
