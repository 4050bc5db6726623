"""Sentences as numbers, and batches of sentences of about the same length."""

from __future__ import annotations

import bisect
import logging
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import UsageError
from ..io import DataBatch, DataDesc, DataIter
from ..ndarray import NDArray, array

__all__ = ["BucketSentenceIter", "encode_sentences"]

logger = logging.getLogger(__name__)


def encode_sentences(
    sentences: Sequence[Sequence[str]],
    vocab: dict[str, int] | None = None,
    invalid_label: int = -1,
    invalid_key: str = "\n",
    start_label: int = 0,
    unknown_token: str | None = None,
) -> tuple[list[list[int]], dict[str, int]]:
    """Return sentences of numbers, and the vocabulary.

    Args:
        sentences: lists of words.
        vocab: number of each word; None to make a new one.
        invalid_label: number of ``invalid_key``, given to no word.
        invalid_key: the word that pads sentences.
        start_label: lowest number of a new vocabulary.
        unknown_token: stands for words that a given vocabulary lacks.

    Raises:
        UsageError: the vocabulary lacks a word, and there is no ``unknown_token``.
    """
    is_new = vocab is None
    numbers = {invalid_key: invalid_label} if vocab is None else vocab
    following = start_label
    encoded = []
    for sentence in sentences:
        coded = []
        for word in sentence:
            if word not in numbers:
                if not is_new and not unknown_token:
                    raise UsageError(
                        f"Unknown token {word!r}; give unknown_token= for words the vocabulary "
                        "lacks"
                    )
                if following == invalid_label:
                    following += 1
                # As in MXNet, each unknown word gives ``unknown_token`` another number.
                word = unknown_token or word
                numbers[word] = following
                following += 1
            coded.append(numbers[word])
        encoded.append(coded)
    return encoded, numbers


class BucketSentenceIter(DataIter):
    """Batches for a language model: the label of each step is the next step's data.

    A sentence goes to the smallest bucket that holds it; longer ones are left out. Sentences and
    batches are shuffled at every ``reset``.

    Args:
        sentences: lists of numbers.
        batch_size: sentences in a batch.
        buckets: lengths; if None, every length of which there is at least a batch of sentences.
        invalid_label: pads data and label.
        data_name, label_name: names of the inputs.
        dtype: of both.
        layout: ``"NT"``, or ``"TN"`` for time first.
    """

    def __init__(
        self,
        sentences: Sequence[Sequence[int]],
        batch_size: int,
        buckets: Sequence[int] | None = None,
        invalid_label: int = -1,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: Any = "float32",
        layout: str = "NT",
    ) -> None:
        super().__init__(batch_size)
        self.major_axis = layout.find("N")
        if self.major_axis not in (0, 1):
            raise ValueError(f"Invalid layout {layout}: must be NT (batch major) or TN")
        if not buckets:
            counts = np.bincount([len(sentence) for sentence in sentences])
            buckets = [length for length, count in enumerate(counts) if count >= batch_size]
        self.invalid_label = invalid_label
        self.data_name, self.label_name = data_name, label_name
        self.dtype, self.layout = dtype, layout
        self.buckets, self.data = self._fill(sentences, sorted(buckets))
        if not self.buckets:
            raise ValueError(
                f"no bucket holds a sentence: {len(sentences)} sentences, buckets {list(buckets)}; "
                "give longer buckets, or a smaller batch_size where they are chosen"
            )
        self.default_bucket_key = max(self.buckets)
        shape = (batch_size, self.default_bucket_key)
        self.provide_data = [self._describe(data_name, shape)]
        self.provide_label = [self._describe(label_name, shape)]
        self.idx = [
            (bucket, start)
            for bucket, rows in enumerate(self.data)
            for start in range(0, len(rows) - batch_size + 1, batch_size)
        ]
        self.curr_idx = 0
        self.nddata: list[NDArray] = []
        self.ndlabel: list[NDArray] = []
        self.reset()

    def reset(self) -> None:
        """Shuffle and go back to the start."""
        self.curr_idx = 0
        # The global generators of both modules, which scripts seed.
        random.shuffle(self.idx)
        self.nddata, self.ndlabel = [], []
        for rows in self.data:
            np.random.shuffle(rows)
            labels = np.full_like(rows, self.invalid_label)
            labels[:, :-1] = rows[:, 1:]
            self.nddata.append(array(rows, dtype=self.dtype))
            self.ndlabel.append(array(labels, dtype=self.dtype))

    def next(self) -> DataBatch:
        """Return the next batch, with its bucket's length as key."""
        if self.curr_idx == len(self.idx):
            raise StopIteration
        bucket, start = self.idx[self.curr_idx]
        self.curr_idx += 1
        rows = slice(start, start + self.batch_size)
        data, label = self.nddata[bucket][rows], self.ndlabel[bucket][rows]
        if self.major_axis == 1:
            data, label = data.T, label.T
        shape = (self.batch_size, self.buckets[bucket])
        return DataBatch(
            [data],
            [label],
            pad=0,
            bucket_key=self.buckets[bucket],
            provide_data=[self._describe(self.data_name, shape)],
            provide_label=[self._describe(self.label_name, shape)],
        )

    def _fill(
        self, sentences: Sequence[Sequence[int]], lengths: Sequence[int]
    ) -> tuple[list[int], list[np.ndarray[Any, Any]]]:
        """Return the buckets that hold sentences, and their sentences padded to the length."""
        rows: list[list[np.ndarray[Any, Any]]] = [[] for _ in lengths]
        too_long = 0
        for sentence in sentences:
            bucket = bisect.bisect_left(lengths, len(sentence))
            if bucket == len(lengths):
                too_long += 1
                continue
            row = np.full(lengths[bucket], self.invalid_label, dtype=self.dtype)
            row[: len(sentence)] = sentence
            rows[bucket].append(row)
        if too_long:
            logger.warning("discarded %d sentences longer than the largest bucket.", too_long)
        kept = [
            (length, np.asarray(some)) for length, some in zip(lengths, rows, strict=True) if some
        ]
        return [length for length, _ in kept], [some for _, some in kept]

    def _describe(self, name: str, shape: tuple[int, int]) -> DataDesc:
        return DataDesc(name, shape if self.major_axis == 0 else shape[::-1], layout=self.layout)
