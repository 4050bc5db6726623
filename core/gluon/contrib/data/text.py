"""Published texts for language models, read from local files: nothing is downloaded."""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from itertools import pairwise

import numpy as np

from ....errors import FormatError, MXNetError, UsageError
from ....ndarray import NDArray, array
from ....vocabulary import Vocabulary, count_tokens_from_str
from ...data.dataset import Dataset
from ...data.local_files import default_root, first_existing, require_files

__all__ = ["WikiText2", "WikiText103"]

_END_OF_LINE = "<eos>"
_FILES = {
    "train": "wiki.train.tokens",
    "validation": "wiki.valid.tokens",
    "test": "wiki.test.tokens",
}


class WikiText2(Dataset):
    """Articles of Wikipedia as sequences of tokens, and the token that follows each of them.

    Lines that are not blank end with the token ``<eos>``; sequences are cut from all of them in a
    row, and what is left at the end is dropped.

    Args:
        root: folder with ``wiki.train.tokens``, ``wiki.valid.tokens`` or ``wiki.test.tokens``, or
            with the archive ``wikitext-2-v1.zip``, which is read without unpacking;
            ``$MXNET_HOME/datasets/wikitext-2`` by default.
        segment: ``"train"``, ``"validation"`` or ``"test"``.
        vocab: the vocabulary; by default that of the segment's tokens, ``<eos>`` before them.
        seq_len: tokens of a sequence.

    Raises:
        MXNetError: the file does not exist. FormatError: it is not UTF-8 text, or the archive is
            damaged. UsageError: another segment.
    """

    _name = "wikitext-2"

    def __init__(
        self,
        root: str | None = None,
        segment: str = "train",
        vocab: Vocabulary | None = None,
        seq_len: int = 35,
    ) -> None:
        if segment not in _FILES:
            raise UsageError(f"segment is {segment!r}; use one of {', '.join(_FILES)}")
        folder = default_root(self._name) if root is None else os.path.expanduser(root)
        content = self._read(folder, _FILES[segment])
        self._counter = count_tokens_from_str(content)
        self._vocab = vocab or Vocabulary(self._counter, reserved_tokens=[_END_OF_LINE])
        self._data, self._label = self._sequences(content, seq_len)

    def _read(self, folder: str, name: str) -> str:
        packed = f"{self._name}-v1.zip"
        path = first_existing(folder, (name, os.path.join(self._name, name), packed))
        require_files(folder, [name], [path], f"or the archive {packed} with it")
        assert path is not None
        try:
            return (_member(path, name) if path.endswith(packed) else _content(path)).decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"{path}: {name} is not UTF-8 text: {error}") from error

    def _sequences(self, content: str, length: int) -> tuple[NDArray, NDArray]:
        lines = [tokens for line in content.splitlines() if (tokens := line.split())]
        tokens = [token for line in lines for token in (*line, _END_OF_LINE)]
        pairs = np.array(list(pairwise(self._vocab.to_indices(tokens))), np.int32).reshape(-1, 2)
        whole = len(pairs) // length * length
        data, label = pairs[:whole].T.reshape(2, -1, length)
        return array(data, dtype="int32"), array(label, dtype="int32")

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the indices."""
        return self._vocab

    @property
    def frequencies(self) -> Counter[str]:
        """How often each token of the segment occurs."""
        return self._counter

    def __getitem__(self, idx: int) -> tuple[NDArray, NDArray]:
        return self._data[idx], self._label[idx]

    def __len__(self) -> int:
        return len(self._label)


class WikiText103(WikiText2):
    """A hundred million tokens of Wikipedia; see ``WikiText2``.

    Args:
        root: as for ``WikiText2``, with the archive ``wikitext-103-v1.zip``;
            ``$MXNET_HOME/datasets/wikitext-103`` by default.
        segment, vocab, seq_len: as for ``WikiText2``.
    """

    _name = "wikitext-103"


def _content(path: str) -> bytes:
    with open(path, "rb") as opened:
        return opened.read()


def _member(archive: str, name: str) -> bytes:
    """Return the file of this name, whatever its folder in the archive."""
    try:
        with zipfile.ZipFile(archive) as opened:
            inside = [one for one in opened.namelist() if os.path.basename(one) == name]
            if not inside:
                raise FormatError(f"{archive} has no {name}")
            return opened.read(inside[0])
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        raise MXNetError(f"{archive} cannot be read: {error}") from error
