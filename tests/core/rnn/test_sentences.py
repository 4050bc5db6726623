"""Encoding sentences and batching them by length."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import core as mx


def test_words_are_numbered() -> None:
    coded, vocab = mx.rnn.encode_sentences([["a", "b", "a"], ["c"]], invalid_label=0, start_label=0)
    assert coded == [[1, 2, 1], [3]]
    assert vocab == {"\n": 0, "a": 1, "b": 2, "c": 3}


def test_unknown_words_become_the_unknown_token() -> None:
    # As in MXNet, the token gets the next number the first time, and again at every unknown word.
    coded, vocab = mx.rnn.encode_sentences(
        [["a", "x"]], vocab={"a": 5}, start_label=7, unknown_token="<unk>"
    )
    assert coded == [[5, 7]]
    assert vocab == {"a": 5, "<unk>": 7}
    with pytest.raises(AssertionError, match="Unknown token 'x'"):
        mx.rnn.encode_sentences([["x"]], vocab={"a": 5})


@pytest.mark.parametrize("layout", ["NT", "TN"])
def test_sentences_are_batched_by_bucket(layout: str, caplog: pytest.LogCaptureFixture) -> None:
    sentences = [[1, 2], [3, 4], [5, 6, 7], [8, 9, 10], [11], [1] * 9]
    with caplog.at_level(logging.WARNING):
        data = mx.rnn.BucketSentenceIter(sentences, 2, [3, 2, 5], invalid_label=0, layout=layout)
    assert "discarded 1 sentences" in caplog.text
    assert data.buckets == [2, 3]
    assert data.default_bucket_key == 3
    assert data.provide_data[0].shape == ((2, 3) if layout == "NT" else (3, 2))
    batches = list(data)
    assert sorted(batch.bucket_key for batch in batches) == [2, 3]
    for batch in batches:
        assert batch.data[0].shape == batch.provide_data[0].shape
        rows, labels = batch.data[0].asnumpy(), batch.label[0].asnumpy()
        if layout == "TN":
            rows, labels = rows.T, labels.T
        np.testing.assert_array_equal(labels[:, :-1], rows[:, 1:])
        assert (labels[:, -1] == 0).all()
    data.reset()
    assert len(list(data)) == 2


def test_buckets_are_chosen_by_frequency() -> None:
    data = mx.rnn.BucketSentenceIter([[1, 2]] * 4 + [[1, 2, 3]] * 2, 3)
    assert data.buckets == [2]


def test_sentences_that_fit_no_bucket_are_refused() -> None:
    with pytest.raises(ValueError, match="no bucket holds"):
        mx.rnn.BucketSentenceIter([[1, 2]], 3)
    with pytest.raises(ValueError, match="Invalid layout"):
        mx.rnn.BucketSentenceIter([[1, 2]], 1, [2], layout="TC")
