"""The top classes of each row."""

from __future__ import annotations

import numpy as np

from app.tensors.ranking import best, labelled


def test_the_largest_come_first_and_ties_keep_their_order() -> None:
    indices, scores = best(np.array([[1.0, 3.0, 3.0, 2.0], [0.0, np.nan, -1.0, 0.5]]), 3)
    assert indices.tolist() == [[1, 2, 3], [3, 0, 2]]
    assert scores.tolist() == [[3.0, 3.0, 2.0], [0.5, 0.0, -1.0]]


def test_more_classes_than_exist_gives_all() -> None:
    indices, _ = best(np.array([[1, 3]], np.uint8), 5)
    assert indices.tolist() == [[1, 0]]


def test_rows_get_labels_as_far_as_there_are_some() -> None:
    rows = labelled(np.array([[0.25, 0.75], [1.0, -np.inf]]), 2, ["cat"])
    assert rows == [
        [
            {"label": None, "index": 1, "score": 0.75},
            {"label": "cat", "index": 0, "score": 0.25},
        ],
        [
            {"label": "cat", "index": 0, "score": 1.0},
            {"label": None, "index": 1, "score": None},
        ],
    ]


def test_classes_are_nested_like_the_leading_axes() -> None:
    output = np.arange(24.0).reshape(2, 3, 4)
    rows = labelled(output, 1)
    assert [[one["index"] for (one,) in row] for row in rows] == [[3, 3, 3], [3, 3, 3]]
    assert rows[1][2] == [{"label": None, "index": 3, "score": 23.0}]
    deep = labelled(np.zeros((2, 3, 4, 5)), 2)
    assert (len(deep), len(deep[0]), len(deep[0][0]), len(deep[0][0][0])) == (2, 3, 4, 2)


def test_a_one_dimensional_output_has_one_class_per_row() -> None:
    assert labelled(np.array([0.5, 1.5]), 3) == [
        [{"label": None, "index": 0, "score": 0.5}],
        [{"label": None, "index": 0, "score": 1.5}],
    ]
