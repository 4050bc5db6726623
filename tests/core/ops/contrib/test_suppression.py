"""Non-maximum suppression against the plain definition, one box after the other."""

from __future__ import annotations

import numpy as np
import pytest

from core.kernels.native import is_available
from core.kernels.native.nms import suppress
from core.ops.contrib import suppression
from core.ops.contrib.geometry import corners_of
from core.ops.contrib.suppression import Suppression


def make_boxes(count: int, size: float, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    first = random.random((count, 2))
    return np.concatenate((first, first + size * random.random((count, 2))), 1).astype("float32")


def one_by_one(boxes, classes, threshold: float) -> np.ndarray:
    stays = np.ones(len(boxes), dtype=bool)
    for i, box in enumerate(boxes):
        if not stays[i]:
            continue
        sides = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
        inside = np.prod(np.maximum(sides, 0), axis=1)
        areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
        ratio = inside / (areas[i] + areas - inside)
        gone = (ratio > threshold) & (classes[i] == classes)
        stays[i + 1 :] &= ~gone[i + 1 :]
    return stays


@pytest.mark.parametrize("most_pairs", [0, 10**6], ids=["by_blocks", "by_pairs"])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("count_classes", [1, 5])
@pytest.mark.parametrize("size", [0.05, 1.0])
def test_suppression_is_greedy(monkeypatch, most_pairs, threshold, count_classes, size) -> None:
    monkeypatch.setattr(suppression, "_MOST_PAIRS", most_pairs)
    boxes = make_boxes(300, size)
    classes = np.random.default_rng(1).integers(0, count_classes, 300)
    got = Suppression(np, threshold).stays(corners_of(np, boxes, "corner"), classes)
    np.testing.assert_array_equal(got, one_by_one(boxes, classes, threshold))


def test_a_box_at_the_threshold_may_be_kept() -> None:
    boxes = corners_of(np, np.float32([[0, 0, 2, 1], [0, 0, 1, 1]]), "corner")
    assert Suppression(np, 0.5).stays(boxes).tolist() == [True, True]
    assert Suppression(np, 0.5, includes_threshold=True).stays(boxes).tolist() == [True, False]


def test_boxes_of_infinite_size() -> None:
    boxes = np.float32([[0, 0, 1, 1], [0, 0, np.inf, np.inf], [0, 0, 1, 0.9], [np.nan, 0, 1, 1]])
    with np.errstate(all="ignore"):
        got = Suppression(np, 0.5).stays(corners_of(np, boxes, "corner"))
    assert got.tolist() == [True, True, False, True]


def test_no_boxes_give_an_empty_result() -> None:
    assert Suppression(np, 0.5).stays(corners_of(np, np.zeros((0, 4)), "corner")).shape == (0,)


@pytest.mark.skipif(not is_available(), reason="the kernels are not compiled, or no AVX-512")
@pytest.mark.parametrize("includes_threshold", [False, True])
@pytest.mark.parametrize("count_classes", [0, 1, 5])
@pytest.mark.parametrize(("count", "size"), [(1, 1.0), (16, 1.0), (300, 0.05), (1000, 1.0)])
def test_the_c_kernel_agrees(count, size, count_classes, includes_threshold) -> None:
    """Corners on a grid, so that some overlaps equal the threshold exactly; one box has NaN
    corners."""
    sides = np.round(make_boxes(count, size) * 8) / 8
    sides[count // 2] = np.nan
    boxes = corners_of(np, sides, "corner")
    classes = None
    if count_classes:
        classes = np.random.default_rng(1).integers(0, count_classes, count)
    with np.errstate(all="ignore"):
        expected = Suppression(np, 0.5, includes_threshold).stays(boxes, classes)
    fast = Suppression(np, 0.5, includes_threshold, own=suppress)
    np.testing.assert_array_equal(fast.stays(boxes, classes), expected)
    few = fast.stays(boxes, classes, most=3)
    np.testing.assert_array_equal(np.flatnonzero(few), np.flatnonzero(expected)[:3])


@pytest.mark.skipif(not is_available(), reason="the kernels are not compiled, or no AVX-512")
def test_other_dtypes_run_on_numpy() -> None:
    sides = corners_of(np, make_boxes(5, 1.0).astype("float64"), "corner")
    arrays = (sides.left, sides.top, sides.right, sides.bottom, sides.area)
    assert suppress(arrays, None, 0.5, False, 5) is None
    assert Suppression(np, 0.5, own=suppress).stays(sides).dtype == bool
