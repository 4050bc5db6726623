"""Row-sparse gradients against dense sums."""

from __future__ import annotations

import numpy as np

from core.ops.rows import Rows, sum_rows

INDICES = np.array([4, 0, 4, 2])
VALUES = np.arange(8, dtype=np.float32).reshape(4, 2)


def test_repeated_rows_are_summed() -> None:
    rows, sums = sum_rows(np, INDICES, VALUES, VALUES.dtype)
    np.testing.assert_array_equal(rows, [0, 2, 4])
    np.testing.assert_array_equal(sums, [VALUES[1], VALUES[3], VALUES[0] + VALUES[2]])


def test_later_rows_are_added_to_earlier_ones() -> None:
    rows = Rows((5, 2), VALUES.dtype)
    np.testing.assert_array_equal(rows.dense(np), np.zeros((5, 2)))
    rows.add(np, INDICES, VALUES)
    rows.add(np, np.array([1, 2]), VALUES[:2])
    assert rows.indices is not None
    np.testing.assert_array_equal(rows.indices, [0, 1, 2, 4])
    expected = np.zeros((5, 2))
    np.add.at(expected, [*INDICES, 1, 2], np.concatenate([VALUES, VALUES[:2]]))
    np.testing.assert_array_equal(rows.dense(np), expected)
    rows.clear()
    assert rows.indices is None


def test_arrays_with_more_axes() -> None:
    values = np.arange(12.0).reshape(2, 2, 3)
    rows, sums = sum_rows(np, np.array([3, 3]), values, values.dtype)
    np.testing.assert_array_equal(rows, [3])
    np.testing.assert_array_equal(sums, values.sum(axis=0, keepdims=True))
