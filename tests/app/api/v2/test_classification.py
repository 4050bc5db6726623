"""The top classes in place of an output's values."""

from __future__ import annotations

import numpy as np
import pytest

from app.api.v2.bytes_tensors import pack
from app.api.v2.classification import classified
from app.errors.tree import Invalid


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "u1", "i4", "i8", "u8"])
def test_classes_are_sorted_and_ties_keep_their_order(dtype: str) -> None:
    scores = np.array([[1, 3, 3, 0], [9, 0, 9, 2]], dtype)
    shape, found = classified("out", scores, 3)
    assert shape == (2, 3)
    assert [one.split(":")[1] for one in found] == ["1", "2", "0", "0", "2", "3"]
    assert float(found[0].split(":")[0]) == 3


def test_nan_comes_last() -> None:
    _, found = classified("out", np.array([[np.nan, 0.5, -np.inf]], "f"), 3)
    assert found == ["0.500000:1", "-inf:2", "nan:0"]


def test_labels_are_appended_where_there_are_some() -> None:
    _, found = classified("out", np.array([[0.25, 0.5, 0.125]], "f"), 3, ["cat", "dog"])
    assert found == ["0.500000:1:dog", "0.250000:0:cat", "0.125000:2"]


def test_more_classes_than_exist_gives_all() -> None:
    assert classified("out", np.zeros((2, 2, 3), "f"), 100)[0] == (2, 6)
    assert classified("out", np.zeros(4, "f"), 2)[0] == (4, 1)
    assert classified("out", np.zeros((0, 3), "f"), 2) == ((0, 2), [])


def test_too_many_classes_are_refused() -> None:
    with pytest.raises(Invalid, match=r"outputs\.out"):
        classified("out", np.zeros((70_000, 8), "f"), 4)


def test_strings_are_length_prefixed() -> None:
    assert pack([b"a", "é".encode()]) == b"\x01\0\0\0a\x02\0\0\0\xc3\xa9"
