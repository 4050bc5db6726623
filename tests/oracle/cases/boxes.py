"""Operators on boxes. Most boxes lie on a grid, so that some overlaps equal the threshold."""

from __future__ import annotations

from typing import Any

import numpy as np

from oracle.case import Case, Spec, normal, permutation, positive, uniform, values


def _boxes(count: int, seed: int, batch: int = 1, classes: int = 3) -> Spec:
    """Return (batch, count, 6): class, score, left, top, right, bottom; many of them overlap."""
    random = np.random.RandomState(seed)
    first = random.randint(-1, 12, size=(batch, count, 2)) / 16
    sizes = random.randint(2, 8, size=(batch, count, 2)) / 16
    scores = random.permutation(batch * count).reshape(batch, count, 1) / (batch * count)
    ids = random.randint(-1, classes, size=(batch, count, 1))
    return values(np.concatenate((ids, scores, first, first + sizes), axis=-1).tolist())


def _centers(count: int, seed: int) -> Spec:
    random = np.random.RandomState(seed)
    middles = random.randint(0, 16, size=(count, 2)) / 16
    sizes = random.randint(2, 8, size=(count, 2)) / 16
    scores = random.permutation(count).reshape(count, 1) / count
    return values(np.concatenate((scores, middles, sizes), axis=-1).tolist())


def _nms(name: str, data: Spec, numeric: bool = False, **attrs: Any) -> Case:
    return Case(f"nms_{name}", "_contrib_box_nms", attrs, {"data": data}, numeric=numeric)


_CORNERS = values([[0.5, 0.5, 1.0, 1.0], [0.0, 0.0, 0.5, 0.5], [0.6, 0.1, 0.4, 0.9]])
_OTHERS = values([[0.25, 0.25, 0.75, 0.75], [0.1, 0.6, 0.9, 0.7]])
_ANCHORS = values([[[0.1, 0.1, 0.4, 0.5], [0.3, 0.2, 0.9, 0.7], [0.0, 0.5, 0.3, 0.9]]] * 2)
_REFS = values([[[0.2, 0.1, 0.5, 0.6], [0.4, 0.4, 0.8, 0.9]], [[0.0, 0.1, 0.3, 0.3]] * 2])

CASES = (
    _nms("default", _boxes(20, 1)),
    _nms("ids", _boxes(20, 2, batch=2), id_index=0, valid_thresh=0.1, overlap_thresh=0.3),
    _nms("force", _boxes(20, 3), id_index=0, force_suppress=True, topk=12),
    _nms("topk", _boxes(30, 4, batch=2), id_index=0, topk=8, overlap_thresh=0.45),
    _nms("background", _boxes(20, 5), id_index=0, background_id=0),
    _nms("background_no_id", _boxes(20, 6), background_id=0),
    _nms("none_valid", _boxes(5, 7), valid_thresh=2.0),
    _nms("topk_zero", _boxes(5, 8), topk=0),
    _nms("rpn", _centers(20, 9), score_index=0, coord_start=1, in_format="center"),
    _nms("to_center", _boxes(20, 10), out_format="center"),
    _nms(
        "both_center",
        _centers(20, 11),
        score_index=0,
        coord_start=1,
        in_format="center",
        out_format="center",
    ),
    _nms("many", _boxes(150, 12, classes=2), id_index=0, overlap_thresh=0.6),
    _nms(
        "ties",
        values(
            [
                [0, 0.5, 0, 0, 1, 1],
                [1, 0.5, 0, 0, 1, 1],
                [2, 0.5, 0, 0.5, 1, 1],
                [0, 0.7, 0, 0, 1, 0.4],
            ]
        ),
        topk=3,
    ),
    _nms("derivative", uniform(8, 6, low=0.1), numeric=True),
    Case(
        "nms_alias",
        "_contrib_box_non_maximum_suppression",
        {},
        {"data": _boxes(6, 13)},
        numeric=False,
    ),
    Case("nms_inference", "_contrib_box_nms", {}, {"data": _boxes(12, 14)}, train=False),
    Case("iou", "_contrib_box_iou", {}, {"lhs": _CORNERS, "rhs": _OTHERS}, numeric=False),
    Case(
        "iou_center",
        "_contrib_box_iou",
        {"format": "center"},
        {"lhs": uniform(2, 3, 4), "rhs": uniform(4, 4)},
        numeric=False,
    ),
    Case(
        "matching",
        "_contrib_bipartite_matching",
        {"threshold": 1e-12},
        {"data": values([[0.5, 0.6], [0.1, 0.2], [0.3, 0.4]])},
        numeric=False,
    ),
    Case(
        "matching_batch",
        "_contrib_bipartite_matching",
        {"threshold": -0.5},
        {"data": permutation(2, 4, 5)},
        grads=False,
    ),
    Case(
        "matching_ascend",
        "_contrib_bipartite_matching",
        {"threshold": 1.0, "is_ascend": True},
        {"data": permutation(2, 2, 5, 3)},
        grads=False,
    ),
    Case(
        "matching_topk",
        "_contrib_bipartite_matching",
        {"threshold": -9.0, "topk": 2},
        {"data": permutation(5, 6)},
        grads=False,
    ),
    Case(
        "encode",
        "_contrib_box_encode",
        {},
        {
            "samples": values([[1, -1, 0], [1, 1, 1]]),
            "matches": values([[1, 0, 0], [0, 1, 1]]),
            "anchors": _ANCHORS,
            "refs": _REFS,
            "means": values([0.0, 0.1, 0.2, 0.0]),
            "stds": values([0.1, 0.1, 0.2, 0.2]),
        },
        grads=False,
    ),
    *(
        Case(
            f"decode_{name}",
            "_contrib_box_decode",
            {"std0": 0.1, "std1": 0.1, "std2": 0.2, "std3": 0.3, **attrs},
            {"data": normal(2, 5, 4), "anchors": positive(1, 5, 4)},
            grads=False,
        )
        for name, attrs in (
            ("center", {}),
            ("corner", {"format": "corner"}),
            ("clip", {"clip": 0.05, "format": "corner"}),
        )
    ),
)
