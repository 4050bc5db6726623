"""The top classes of each row."""

from __future__ import annotations

import json

import numpy as np
import pytest

from app.tensors.ranking import best, labelled, ranked_pieces


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


@pytest.mark.parametrize("shape", [(5,), (3, 70_000), (2, 3, 40_000), (1, 500, 300), (90_000,)])
def test_large_outputs_are_ranked_in_parts_with_the_same_result(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    scores = rng.integers(0, 50, shape).astype(np.float32)  # many ties
    scores.reshape(-1)[:: max(1, scores.size // 7)] = np.nan
    rows = scores.reshape(-1, 1) if scores.ndim < 2 else scores
    keys = np.where(np.isnan(rows), np.inf, -rows.astype(np.float64))
    expected = np.argsort(keys, -1, kind="stable")[..., :4]
    np.testing.assert_array_equal(best(scores, 4)[0], expected)
    text = b"".join(ranked_pieces(scores, 4, ["zero", "one"]))
    assert json.loads(text) == labelled(scores, 4, ["zero", "one"])
